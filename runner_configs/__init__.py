"""Option files for engines, and beside them what starts each engine on this machine."""

# Filters a warning that Beam gives when it is imported.
import pipelines as pipelines
