// Started by worker-process.ts: the wiring of "connector-sync worker" from the built program, with times of the test's
// own.
import { readdirSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { systemClock } from '../../src/core/clock.ts';
import { followConfig } from '../../src/app/start-scheduled-runs.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { openLog } from '../../src/telemetry/log.ts';

const [config, options] = process.argv.slice(2);
const read = () => ({ settings: loadSettings({ file: config, env: process.env }) });
const stopping = new AbortController();
const runs = await followConfig({
  ...read(),
  read: async () => read(),
  signal: stopping.signal,
  log: await openLog({ level: 'info', write: (line) => void process.stderr.write(line) }),
  clock: systemClock,
  command: 'worker-process.mjs',
  ...JSON.parse(options),
});
process.on('SIGUSR2', tellFigures);
process.on('SIGHUP', () => void runs.reload());
await new Promise((resolve) => process.once('SIGTERM', resolve));
stopping.abort();
await runs.stop();
setTimeout(() => process.exit(), 1000).unref();

/** What a process that leaks has more and more of, as a line of the log. After a collection: garbage is no leak. */
function tellFigures() {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  const listeners = process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
  const figures = {
    time: new Date().toISOString(),
    msg: 'figures',
    heapKiB: Math.round(process.memoryUsage().heapUsed / 1024),
    rssKiB: Math.round(process.memoryUsage.rss() / 1024),
    handles: process.getActiveResourcesInfo().length,
    files: readdirSync('/proc/self/fd').length,
    listeners,
  };
  process.stderr.write(`${JSON.stringify(figures)}\n`);
}
