import java.util.List;
import org.apache.beam.model.pipeline.v1.RunnerApi;
import org.apache.beam.runners.flink.FlinkJobInvoker;
import org.apache.beam.runners.flink.FlinkJobServerDriver;
import org.apache.beam.runners.flink.FlinkJobServerDriver.FlinkServerConfiguration;
import org.apache.beam.runners.flink.FlinkPipelineOptions;
import org.apache.beam.runners.flink.FlinkPipelineRunner;
import org.apache.beam.runners.jobsubmission.JobInvocation;
import org.apache.beam.runners.jobsubmission.PortablePipelineRunner;
import org.apache.beam.sdk.io.FileSystems;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.vendor.guava.v32_1_2_jre.com.google.common.util.concurrent.ListeningExecutorService;

/**
 * Beam's job server for a cluster that has Beam among its own libraries. Beam's own one sends its whole
 * class path, 230 MB, with each job.
 */
public final class JobServer extends FlinkJobInvoker {
  private JobServer(FlinkServerConfiguration configuration) {
    super(configuration);
  }

  @Override
  protected JobInvocation createJobInvocation(
      String id,
      String token,
      ListeningExecutorService executor,
      RunnerApi.Pipeline pipeline,
      FlinkPipelineOptions options,
      PortablePipelineRunner ignored) {
    FlinkPipelineRunner runner = new FlinkPipelineRunner(options, null, List.of());
    return super.createJobInvocation(id, token, executor, pipeline, options, runner);
  }

  public static void main(String[] arguments) throws Exception {
    FileSystems.setDefaultPipelineOptions(PipelineOptionsFactory.create());
    FlinkServerConfiguration configuration = FlinkJobServerDriver.parseArgs(arguments);
    FlinkJobServerDriver.fromConfig(configuration, () -> new JobServer(configuration)).run();
  }
}
