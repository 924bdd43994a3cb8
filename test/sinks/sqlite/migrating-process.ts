import Database from 'better-sqlite3';
import { openDatabase } from '../../../src/sinks/sqlite/open-database.ts';
import { sqliteFormat } from '../../../src/sinks/sqlite/sqlite-schema.ts';
import { madeUpMigrations } from '../../support/sinks/made-up-versions.ts';

/**
 * Opens a file as a release with two more versions would, once the agreed moment has come, and kills itself at a step
 * (-1: at none) or, at `end`, after the migration.
 */
const [file = '', killAt = '-1', startAtMs = '0'] = process.argv.slice(2);
while (Date.now() < Number(startAtMs)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);

function dieAt(step: unknown): number {
  if (String(step) === killAt) process.kill(process.pid, 'SIGKILL');
  return 0;
}

const exec = Reflect.get(Database.prototype, 'exec');
Database.prototype.exec = function (sql) {
  this.function('die_at', dieAt);
  return exec.call(this, sql);
};
const db = openDatabase({
  file,
  format: { ...sqliteFormat, migrations: madeUpMigrations((step) => `SELECT die_at(${step})`) },
  durability: 'full',
});
dieAt('end');
db.close();
