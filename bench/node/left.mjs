import pg from "pg";

// run lets a queue work until nothing is left, or until the limit, and writes what
// it has done: what is left is counted in the database, so a job counts when its
// end is committed. start(onJobs) starts the queue, calls onJobs with how many jobs
// were handed to a handler, and returns how to stop it.
export async function run({ url, want, limit, start, countLeft }) {
  const client = new pg.Client(url);
  await client.connect();
  let handed = 0;
  let allHanded;
  const all = new Promise((resolve) => (allHanded = resolve));
  const began = performance.now();
  const stop = await start((count) => {
    handed += count;
    if (handed >= want) allHanded();
  });
  const over = new Promise((resolve) => setTimeout(resolve, limit).unref());
  await Promise.race([all, over]);
  let left, seconds;
  do {
    left = Number((await client.query(countLeft)).rows[0].left);
    seconds = (performance.now() - began) / 1000;
  } while (left > 0 && seconds * 1000 < limit);
  console.log(JSON.stringify({ done: want - left, seconds }));
  await stop();
  await client.end();
  process.exit(0);
}

// inBatches calls add with numbers, five thousand at a time.
export async function inBatches(count, add) {
  const batch = 5000;
  for (let from = 0; from < count; from += batch) {
    const size = Math.min(batch, count - from);
    await add(Array.from({ length: size }, (_, i) => from + i));
  }
  console.log(JSON.stringify({ done: count, seconds: 0 }));
}
