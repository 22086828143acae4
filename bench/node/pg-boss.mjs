// node pg-boss.mjs fill|work alone|successor URL JOBS MILLISECONDS
import { PgBoss } from "pg-boss";
import { fill, nextYear, work } from "./left.mjs";

const [what, successor, url, jobs, limit] = process.argv.slice(2);
const want = Number(jobs);
const queue = "bench";
const succeeds = successor === "successor";

// Only some policies make a singleton key unique. Under "short" it is unique among jobs that wait.
const policy = succeeds ? "short" : "standard";
const key = (num, year) => (succeeds ? { singletonKey: `${num}-${year}` } : {});

async function boss() {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

if (what === "fill") {
  const filling = await boss();
  await filling.createQueue(queue, { policy });
  await fill(want, (numbers) => filling.insert(queue, numbers.map((num) => ({ data: { num }, ...key(num, 0) }))));
  await filling.stop();
} else {
  await work({
    url,
    want,
    limit: Number(limit),
    countLeft: `SELECT count(*) AS left FROM pgboss.job WHERE name = '${queue}' AND state < 'completed' AND start_after <= now()`,
    start: async (onJobs) => {
      const working = await boss();
      const succeed = (jobs) =>
        working.insert(queue, jobs.map(({ data: { num } }) => ({ data: { num }, startAfter: nextYear, ...key(num, 1) })));
      for (let worker = 0; worker < 4; worker++) {
        await working.work(queue, { batchSize: 5000, pollingIntervalSeconds: 0.5 }, async (jobs) => {
          if (succeeds) await succeed(jobs);
          onJobs(jobs.length);
        });
      }
      return () => working.stop({ graceful: true, timeout: 5000 });
    },
  });
}
