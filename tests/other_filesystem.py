"""A Beam filesystem that is not this machine's: its files are below a local directory."""

import os

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem

SCHEME = "elsewhere://"


def _here(path):
    return path.removeprefix(SCHEME)


class Elsewhere(LocalFileSystem):
    """Beam finds it by its scheme, as soon as this module is imported."""

    @classmethod
    def scheme(cls):
        return SCHEME.removesuffix("://")

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def _list(self, dir_or_prefix):
        for file in super()._list(_here(dir_or_prefix)):
            yield FileMetadata(SCHEME + file.path, file.size_in_bytes, file.last_updated_in_seconds)

    def create(self, path, *args, **options):
        return super().create(_here(path), *args, **options)

    def open(self, path, *args, **options):
        return super().open(_here(path), *args, **options)

    def rename(self, source_file_names, destination_file_names):
        super().rename([*map(_here, source_file_names)], [*map(_here, destination_file_names)])

    def exists(self, path):
        return super().exists(_here(path))

    def delete(self, paths):
        for path in paths:
            os.remove(_here(path))
