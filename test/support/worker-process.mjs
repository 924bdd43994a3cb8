// Started by worker-process.ts: the wiring of "connector-sync worker" from the built program, with times of the test's own.
import { systemClock } from '../../src/core/clock.ts';
import { startScheduledRuns } from '../../src/cli/start-scheduled-runs.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { openLog } from '../../src/telemetry/log.ts';

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
