"""The class of Beam that is mended for engines in Java."""

import subprocess

import pytest

from runner_configs.flink.staging import LIBRARIES, stage
from runner_configs.parts import MENDED, Unavailable, java

pytestmark = pytest.mark.flink

# Elements of any size, written in any way, against the same in one array.
PIECES = """
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.beam.sdk.fn.stream.DataStreams;
import org.apache.beam.vendor.grpc.v1p60p1.com.google.protobuf.ByteString;

public class Pieces {
  public static void main(String[] arguments) throws Exception {
    Random random = new Random(1);
    for (int trial = 0; trial < 20000; trial++) {
      int size = 1 + random.nextInt(8);
      List<ByteString> pieces = new ArrayList<>();
      ByteArrayOutputStream expected = new ByteArrayOutputStream();
      try (DataStreams.ElementDelimitedOutputStream out = DataStreams.outbound(pieces::add, size)) {
        for (int element = random.nextInt(6); element > 0; element--) {
          int before = expected.size();
          for (int write = random.nextInt(4); write > 0; write--) {
            byte[] bytes = new byte[random.nextInt(20)];
            random.nextBytes(bytes);
            if (bytes.length == 1) {
              out.write(bytes[0]);
            } else {
              out.write(bytes, 0, bytes.length);
            }
            expected.write(bytes);
          }
          out.delimitElement();
          if (expected.size() == before) {
            expected.write(0);
          }
        }
      }
      if (!ByteString.copyFrom(pieces).equals(ByteString.copyFrom(expected.toByteArray()))) {
        throw new AssertionError("other bytes");
      }
      for (int i = 0; i < pieces.size(); i++) {
        int length = pieces.get(i).size();
        if (length > size || length == 0 || (length < size && i < pieces.size() - 1)) {
          throw new AssertionError("a piece of " + length + " bytes, not " + size);
        }
      }
    }
  }
}
"""


@pytest.fixture(scope="module", autouse=True)
def libraries():
    try:
        stage()
    except Unavailable as reason:
        pytest.skip(f"no libraries of Beam: {reason}")


def run_pieces(directory, libraries):
    source = directory / "Pieces.java"
    source.write_text(PIECES)
    path = ":".join(str(library) for library in libraries)
    return subprocess.run([java(), "-cp", path, str(source)], capture_output=True, text=True)


def test_pieces_of_a_side_input_are_full_and_hold_all_bytes(tmp_path):
    done = run_pieces(tmp_path, sorted(LIBRARIES.glob("*.jar")))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_class_still_needs_mending(tmp_path):
    # Where Beam mends it, runner_configs/beam can go.
    unmended = [library for library in LIBRARIES.glob("*.jar") if library.name != MENDED]
    done = run_pieces(tmp_path, unmended)
    assert done.returncode and ("arraycopy" in done.stderr or "a piece of" in done.stderr)
