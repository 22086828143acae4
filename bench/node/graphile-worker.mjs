// node graphile-worker.mjs fill URL JOBS | work URL JOBS MILLISECONDS
import { Logger, makeWorkerUtils, run as runWorker } from "graphile-worker";
import { inBatches, run } from "./left.mjs";

const [what, connectionString, jobs, limit] = process.argv.slice(2);
const want = Number(jobs);
const logger = new Logger(() => () => {});

if (what === "fill") {
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  await inBatches(want, (numbers) => utils.addJobs(numbers.map((num) => ({ identifier: "bench", payload: { num } }))));
  await utils.release();
} else {
  await run({
    url: connectionString,
    want,
    limit: Number(limit),
    countLeft: "SELECT count(*) AS left FROM graphile_worker.jobs",
    start: async (onJobs) => {
      const runner = await runWorker({
        preset: {
          worker: {
            connectionString,
            concurrentJobs: 24,
            maxPoolSize: 12,
            localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
            completeJobBatchDelay: 0,
            failJobBatchDelay: 0,
          },
        },
        logger,
        noHandleSignals: true,
        taskList: { bench: async () => onJobs(1) },
      });
      return () => runner.stop();
    },
  });
}
