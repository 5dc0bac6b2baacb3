"""A Flink session cluster on this machine's loopback interface."""
