import pg from "pg";

// nextYear is when a successor is due.
export const nextYear = new Date(Date.now() + 365 * 24 * 3600 * 1000);

// work lets a queue work until nothing is left, or until the limit. It writes a line when it
// begins, and then what it has done: what is left is counted in the database, so a job counts
// when its end is committed. start(onJobs) starts the queue, calls onJobs with how many jobs
// a handler is done with, and returns how to stop it.
export async function work({ url, want, limit, start, countLeft }) {
  const client = new pg.Client(url);
  await client.connect();
  let handled = 0;
  let allHandled;
  const all = new Promise((resolve) => (allHandled = resolve));
  console.log("{}");
  const before = process.cpuUsage();
  const began = performance.now();
  const stop = await start((count) => {
    handled += count;
    if (handled >= want) allHandled();
  });
  const over = new Promise((resolve) => setTimeout(resolve, limit).unref());
  await Promise.race([all, over]);
  let left, seconds;
  do {
    left = Number((await client.query(countLeft)).rows[0].left);
    seconds = (performance.now() - began) / 1000;
  } while (left > 0 && seconds * 1000 < limit);
  const used = process.cpuUsage(before);
  console.log(JSON.stringify({ done: want - left, seconds, cpu: (used.user + used.system) / 1e6 }));
  await stop();
  await client.end();
  process.exit(0);
}

// fill calls add with numbers, five thousand at a time. It writes the same lines as work.
export async function fill(count, add) {
  console.log("{}");
  const batch = 5000;
  for (let from = 0; from < count; from += batch) {
    const size = Math.min(batch, count - from);
    await add(Array.from({ length: size }, (_, i) => from + i));
  }
  console.log(JSON.stringify({ done: count }));
}
