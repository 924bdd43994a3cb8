import { Secret } from '../../src/core/secret.ts';
import { startWorker } from '../../src/jobs/start-worker.ts';
import {
  connectorsOf,
  emptyLedger,
  logInto,
  runsOf,
  ok,
  prefix,
  shortTimings,
  warehouse,
  yearly,
} from '../support/jobs/worker-bench.ts';

/** A worker whose run of `poison` exits the process at once; the runs of other connectors succeed. */
const [url = ''] = process.argv.slice(2);
await startWorker({
  settings: {
    redis: { url: new Secret(url), isConfigured: true, prefix },
    connectors: connectorsOf({ poison: yearly, newsletter: yearly }),
  },
  serves: () => true,
  sinks: [warehouse],
  ledger: emptyLedger,
  run: runsOf((name) => {
    process.stdout.write(`begun ${name}\n`);
    if (name === 'poison') process.kill(process.pid, 'SIGKILL');
    return Promise.resolve(ok);
  }),
  log: logInto([]),
  timings: { ...shortTimings, lockMs: 500, stalledMs: 200 },
});
