// node graphile-worker.mjs fill|work alone|successor URL JOBS MILLISECONDS
import { Logger, makeWorkerUtils, run as runWorker } from "graphile-worker";
import { fill, nextYear, work } from "./left.mjs";

const [what, successor, connectionString, jobs, limit] = process.argv.slice(2);
const want = Number(jobs);
const logger = new Logger(() => () => {});

// A job key makes a successor unique.
const succeed = ({ num }, helpers) => helpers.addJob("bench", { num }, { jobKey: `${num}-1`, runAt: nextYear });

if (what === "fill") {
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  await fill(want, (numbers) => utils.addJobs(numbers.map((num) => ({ identifier: "bench", payload: { num } }))));
  await utils.release();
} else {
  await work({
    url: connectionString,
    want,
    limit: Number(limit),
    countLeft: "SELECT count(*) AS left FROM graphile_worker.jobs WHERE run_at <= now()",
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
        taskList: {
          bench: async (payload, helpers) => {
            if (successor === "successor") await succeed(payload, helpers);
            onJobs(1);
          },
        },
      });
      return () => runner.stop();
    },
  });
}
