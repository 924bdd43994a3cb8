// A search process that does what it is told by the query: answers, hangs in a statement without end, dies, or never
// answers.
import { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';

const endless = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n';

process.on('disconnect', () => process.exit());
process.on('message', (message) => {
  if (message.kind === 'settings') return;
  const { act } = message.call.params;
  if (act === 'hang') new Database(':memory:').prepare(endless).get();
  if (act === 'die') process.exit(3);
  if (act === 'wait') return;
  const meta = { has_more: false, cursor: null, took_ms: 0 };
  process.send({ kind: 'answer', answer: { data: [{ pid: process.pid }], meta } });
});
const watch = new URL('../../../dist/search/process/watch-parent.js', import.meta.url);
new Worker(watch, { workerData: Number(process.argv[2]) }).unref();
process.send({ kind: 'ready' });
