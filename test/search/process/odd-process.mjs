// A search process that does what the query asks for: answers, hangs in a statement without end, dies, or never
// answers.
import { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';

const endless = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n';

process.on('disconnect', () => process.exit());
process.on('message', ({ id, name, given }) => {
  if (name === 'settings') return process.send({ kind: 'result', id });
  const { act } = given.params;
  if (act === 'hang') new Database(':memory:').prepare(endless).get();
  if (act === 'die') process.exit(3);
  if (act === 'wait') return;
  const meta = { has_more: false, cursor: null, took_ms: 0 };
  process.send({ kind: 'result', id, result: { data: [{ pid: process.pid }], meta } });
});
const watch = new URL('../../../dist/child/watch-parent.js', import.meta.url);
new Worker(watch, { workerData: { parent: Number(process.argv[2]), mostMiB: null } }).unref();
