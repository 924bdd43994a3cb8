import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect } from 'vitest';
import { stateMigrations } from '../../../src/service/state/state-schema.ts';
import { openTestState } from '../../support/service/open-test-state.ts';
import { it } from '../../support/it.ts';

const versions = stateMigrations.slice(1).map((_, at) => at + 1);

function writeOlder(folder: string, version: number): string {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'service.db');
  const db = new Database(file);
  db.exec(readFileSync(new URL(`../../fixtures/service/state-${version}.sql`, import.meta.url), 'utf8'));
  db.close();
  return file;
}

function schemaOf(file: string): unknown {
  const db = new Database(file, { readonly: true });
  try {
    const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").pluck();
    const columns = tables.all().map((table) => [table, db.pragma(`table_xinfo(${String(table)})`)]);
    return { columns, version: db.pragma('user_version', { simple: true }) };
  } finally {
    db.close();
  }
}

describe.each(versions)("a service's data of version %i", (version) => {
  it('become what new data are, and their connectors have sample accounts', ({ folder }) => {
    const file = writeOlder(join(folder, 'older'), version);
    openTestState({ folder: join(folder, 'new') })[Symbol.dispose]();
    using state = openTestState({ folder: join(folder, 'older') });
    expect(schemaOf(file)).toEqual(schemaOf(join(folder, 'new', 'service.db')));
    expect(state.connectors.all()).toMatchObject([{ id: 'newsletter', account: null }]);
  });

  it('are whole and as old as before after a kill in the middle of their migration', async ({ folder }) => {
    const file = writeOlder(folder, version);
    const before = schemaOf(file);
    const schema = new URL('../../../src/service/state/state-schema.ts', import.meta.url).href;
    const child = spawn(
      process.execPath,
      [
        '--import=tsx',
        '--input-type=module',
        '--eval',
        `import Database from 'better-sqlite3';
         import { stateMigrations } from ${JSON.stringify(schema)};
         const db = new Database(${JSON.stringify(file)});
         db.transaction(() => {
           for (const migrate of stateMigrations.slice(${version})) migrate(db, '2026-01-01T00:00:00.000Z');
           process.kill(process.pid, 'SIGKILL');
         }).immediate();`,
      ],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    );
    const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
    expect(signal).toBe('SIGKILL');
    expect(schemaOf(file)).toEqual(before);
    using state = openTestState({ folder });
    expect(state.connectors.all()).toHaveLength(1);
  });
});
