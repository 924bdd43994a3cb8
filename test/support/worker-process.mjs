// Started by worker-process.ts: the wiring of "connector-sync worker" from the built program, with times of the test's own.
import { systemClock } from '../../dist/core/clock.js';
import { startScheduledRuns } from '../../dist/cli/start-scheduled-runs.js';
import { loadSettings } from '../../dist/settings/load-settings.js';
import { openLog } from '../../dist/telemetry/log.js';

const [config, options] = process.argv.slice(2);
const runs = await startScheduledRuns({
  settings: loadSettings({ file: config, env: process.env }),
  log: await openLog({ level: 'info', write: (line) => void process.stderr.write(line) }),
  clock: systemClock,
  command: 'worker-process.mjs',
  ...JSON.parse(options),
});
const stopped = new Promise((resolve) => process.once('SIGTERM', resolve));
await Promise.race([runs.ended, stopped]);
await runs.stop();
setTimeout(() => process.exit(), 1000).unref();
