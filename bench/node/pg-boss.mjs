// node pg-boss.mjs fill|work alone|successor|group URL JOBS MILLISECONDS
import { PgBoss } from "pg-boss";
import { fill, nextYear, work } from "./left.mjs";

const [what, kind, url, jobs, limit] = process.argv.slice(2);
const want = Number(jobs);
const queue = "bench";
const succeeds = kind === "successor";
const grouped = kind === "group";

// Only some policies make a singleton key unique. Under "short" it is unique among jobs that wait.
const policy = succeeds ? "short" : "standard";
const key = (num, year) => (succeeds ? { singletonKey: `${num}-${year}` } : {});

// The group of a job, and how many jobs of a group may be active over all workers: more than these workers take.
const group = grouped ? { group: { id: "crm" } } : {};
const most = grouped ? { groupConcurrency: 100_000 } : {};

async function boss() {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

if (what === "fill") {
  const filling = await boss();
  await filling.createQueue(queue, { policy });
  await fill(want, (numbers) => filling.insert(queue, numbers.map((num) => ({ data: { num }, ...key(num, 0), ...group }))));
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
        await working.work(queue, { batchSize: 5000, pollingIntervalSeconds: 0.5, ...most }, async (jobs) => {
          if (succeeds) await succeed(jobs);
          onJobs(jobs.length);
        });
      }
      return () => working.stop({ graceful: true, timeout: 5000 });
    },
  });
}
