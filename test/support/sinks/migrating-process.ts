import Database from 'better-sqlite3';
import { systemClock } from '../../../src/core/clock.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';

/**
 * Opens the sink given as JSON when it is told to, and says when it has seen the version and how it went. With `killed` as
 * second argument it dies by SIGKILL inside the migration, when everything but the version has been written.
 */
const options = JSON.parse(process.argv[2] ?? '') as SinkOptions;

const isKilled = process.argv[3] === 'killed';

// The pragmas are what an opening consists of: the version is read, the log is set up, the new version is written.
let hasInspected = false;
const pragma = Reflect.get(Database.prototype, 'pragma');
Database.prototype.pragma = function (source, more) {
  // A sink that finds the file locked opens it again.
  if (source === 'journal_mode = WAL' && !hasInspected) process.send?.('inspected');
  hasInspected ||= source === 'journal_mode = WAL';
  if (source.startsWith('user_version = ') && isKilled) process.kill(process.pid, 'SIGKILL');
  return pragma.call(this, source, more);
};
process.on('message', () => {
  openSink(options, { clock: systemClock })
    .then(async (sink) => {
      await sink[Symbol.asyncDispose]();
      return 'opened';
    })
    .catch(String)
    .then((end) => process.send?.(end, () => process.disconnect()))
    .catch(() => process.exit(1));
});
process.send?.('ready');
