import { Secret } from '../../src/core/secret.ts';
import { startWorker } from '../../src/jobs/start-worker.ts';
import {
  connectorsOf,
  emptyLedger,
  logInto,
  newsletter,
  runsOf,
  ok,
  prefix,
  shortTimings,
  warehouse,
  yearly,
} from '../support/jobs/worker-bench.ts';

/** A worker that is killed by its first publication. */
const [url = ''] = process.argv.slice(2);
await startWorker({
  settings: {
    redis: { url: new Secret(url), isConfigured: true, prefix },
    connectors: connectorsOf({ newsletter: yearly }),
  },
  serves: () => true,
  sinks: [warehouse],
  ledger: emptyLedger,
  run: runsOf(() => Promise.resolve(ok)),
  targets: [
    {
      name: 'lake',
      when: { kind: 'after-sync' },
      connectors: [{ name: newsletter, sink: { name: warehouse.name } }],
    },
  ],
  publish: () => {
    process.stdout.write('begun\n');
    process.kill(process.pid, 'SIGKILL');
    return Promise.resolve('published');
  },
  log: logInto([]),
  timings: { ...shortTimings, lockMs: 500, stalledMs: 200 },
});
