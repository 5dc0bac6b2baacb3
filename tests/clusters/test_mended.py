"""The classes of Beam that are mended for engines in Java."""

import subprocess

import pytest

from runner_configs.flink.staging import LIBRARIES, stage
from runner_configs.parts import MENDED, Unavailable, java

pytestmark = pytest.mark.flink

# Elements of any size, written in any way, against the same in one array.
PIECES = """
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Random;
import org.apache.beam.sdk.fn.stream.DataStreams;
import org.apache.beam.vendor.grpc.v1p60p1.com.google.protobuf.ByteString;

public class Pieces {
  public static void main(String[] arguments) throws Exception {
    var random = new Random(1);
    for (int trial = 0; trial < 20000; trial++) {
      int size = 1 + random.nextInt(8);
      var pieces = new ArrayList<ByteString>();
      var expected = new ByteArrayOutputStream();
      try (var out = DataStreams.outbound(pieces::add, size)) {
        for (int element = random.nextInt(6); element > 0; element--) {
          int before = expected.size();
          for (int write = random.nextInt(4); write > 0; write--) {
            var bytes = new byte[random.nextInt(20)];
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

# A task for which there is no worker: whether it lets go of what its job's tasks share.
NO_WORKER = """
import java.util.Map;
import org.apache.beam.model.pipeline.v1.Endpoints.ApiServiceDescriptor;
import org.apache.beam.model.pipeline.v1.RunnerApi.*;
import org.apache.beam.runners.flink.translation.functions.*;
import org.apache.beam.runners.fnexecution.provisioning.JobInfo;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.util.construction.PipelineOptionsTranslation;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.TaskInfoImpl;
import org.apache.flink.api.common.functions.util.RuntimeUDFContext;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;

public class NoWorker {
  public static void main(String[] arguments) throws Exception {
    var options = PipelineOptionsFactory.create();
    var job = JobInfo.create("job", "job", "", PipelineOptionsTranslation.toProto(options));
    var nowhere = ExternalPayload.newBuilder()
        .setEndpoint(ApiServiceDescriptor.newBuilder().setUrl("localhost:1")).build();
    var stage = ExecutableStagePayload.newBuilder()
        .setInput("input")
        .setComponents(Components.newBuilder()
            .putPcollections("input", PCollection.getDefaultInstance()))
        .setEnvironment(Environment.newBuilder()
            .setUrn("beam:env:external:v1").setPayload(nowhere.toByteString()))
        .build();
    var contexts = FlinkExecutableStageContextFactory.getInstance();
    var task = new FlinkExecutableStageFunction<Object>(
        "step", options, stage, job, Map.of(), contexts, null, null);
    task.setRuntimeContext(new RuntimeUDFContext(
        new TaskInfoImpl("task", 1, 0, 1, 0), NoWorker.class.getClassLoader(),
        new ExecutionConfig(), Map.of(), Map.of(),
        UnregisteredMetricsGroup.createOperatorMetricGroup()));
    var held = contexts.get(job);
    try {
      task.open(new Configuration());
      throw new AssertionError("there is a worker");
    } catch (RuntimeException expected) {
    }
    held.close();
    System.out.println(contexts.get(job) == held ? "held" : "released");
    System.exit(0);
  }
}
"""

# How long Flink's client waits before its hundredth look at a job.
POLLING = """
import org.apache.flink.client.program.rest.retry.ExponentialWaitStrategy;

public class Polling {
  public static void main(String[] arguments) {
    System.out.println(new ExponentialWaitStrategy(10, 2000).sleepTime(100));
  }
}
"""


@pytest.fixture(scope="module")
def libraries():
    try:
        stage()
    except Unavailable as reason:
        pytest.skip(f"no libraries of Beam: {reason}")
    return sorted(LIBRARIES.glob("*.jar"))


def run(text, directory, libraries):
    source = directory / "Main.java"
    source.write_text(text)
    path = ":".join(map(str, libraries))
    return subprocess.run([java(), "-cp", path, str(source)], capture_output=True, text=True)


MENDED_CLASSES = {
    "pieces of a side input are full and hold all bytes": (PIECES, ""),
    "a task without a worker lets go of its job's workers": (NO_WORKER, "released\n"),
    "a job's end is heard of soon": (POLLING, "200\n"),
}


@pytest.mark.parametrize("name", MENDED_CLASSES)
def test_mended_classes(name, libraries, tmp_path):
    text, printed = MENDED_CLASSES[name]
    done = run(text, tmp_path, libraries)
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_the_class_still_needs_mending(libraries, tmp_path):
    # Where Beam mends it, runner_configs/beam can go.
    done = run(PIECES, tmp_path, [library for library in libraries if library.name != MENDED])
    assert done.returncode and ("arraycopy" in done.stderr or "a piece of" in done.stderr)
