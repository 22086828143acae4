// node pg-boss.mjs fill URL JOBS | work URL JOBS MILLISECONDS
import { PgBoss } from "pg-boss";
import { inBatches, run } from "./left.mjs";

const [what, url, jobs, limit] = process.argv.slice(2);
const want = Number(jobs);
const queue = "bench";

async function boss() {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

if (what === "fill") {
  const filling = await boss();
  await filling.createQueue(queue);
  await inBatches(want, (numbers) => filling.insert(queue, numbers.map((num) => ({ data: { num } }))));
  await filling.stop();
} else {
  await run({
    url,
    want,
    limit: Number(limit),
    countLeft: `SELECT count(*) AS left FROM pgboss.job WHERE name = '${queue}' AND state < 'completed'`,
    start: async (onJobs) => {
      const working = await boss();
      for (let worker = 0; worker < 4; worker++) {
        await working.work(queue, { batchSize: 5000, pollingIntervalSeconds: 0.5 }, async (jobs) => onJobs(jobs.length));
      }
      return () => working.stop({ graceful: true, timeout: 5000 });
    },
  });
}
