import { chmodSync, mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openHistory, openSink } from '../../src/sinks/registry.ts';
import { schemaVersion } from '../../src/sinks/sqlite/schema.ts';
import { textHash } from '../../src/sql/text-hash.ts';
import { testProgram } from '../support/ensure-built.ts';
import { it } from '../support/it.ts';
import { startScript } from '../support/run-cli.ts';
import { killedAtEach } from '../support/stored/killed-opening.ts';
import { unpackFolder } from '../support/stored/packed-files.ts';
import { openStored } from '../support/stored/stored-fixture.ts';
import { ledgerFiles } from '../support/stored/stored-kinds.ts';
import { isLong } from '../support/trials.ts';

/* A file of version 7, as the ledger reads and migrates it. */

const optionsOf = (path: string) =>
  ({ type: 'sqlite', name: 'warehouse', path, durability: 'full' }) as const;

function unpacked(folder: string): string {
  const stored = join(folder, 'sink');
  mkdirSync(stored, { mode: 0o700 });
  unpackFolder('sqlite.json.br', stored);
  const file = join(stored, 'warehouse.db');
  chmodSync(file, 0o600);
  return file;
}

async function opened(file: string): Promise<void> {
  await (await openSink(optionsOf(file), { clock: systemClock }))[Symbol.asyncDispose]();
}

function all(file: string, sql: string): readonly Readonly<Record<string, unknown>>[] {
  const db = new Database(file, { readonly: true });
  try {
    return db.prepare<[], Record<string, unknown>>(sql).all();
  } finally {
    db.close();
  }
}

/** Tables as their columns, indexes and views as their texts. */
function schemaOf(file: string): unknown {
  const db = new Database(file, { readonly: true });
  try {
    return db
      .prepare<[], { type: string; name: string; sql: string }>(
        `SELECT type, name, sql FROM sqlite_schema
         WHERE sql IS NOT NULL AND (name LIKE '\\_sync\\_%' ESCAPE '\\' OR name LIKE '\\_catalog%' ESCAPE '\\') ORDER BY name`,
      )
      .all()
      .map(({ type, name, sql }) => [
        name,
        type === 'table'
          ? [db.pragma(`table_info('${name}')`), sql.includes('AUTOINCREMENT'), sql.replace(/^.*\)/s, '')]
          : sql,
      ]);
  } finally {
    db.close();
  }
}

// Proves promise 1.7
it('becomes what a new file is', async ({ folder }) => {
  const file = unpacked(folder);
  const other = join(folder, 'new.db');
  await opened(file);
  await opened(other);
  expect(schemaOf(file)).toEqual(schemaOf(other));
  expect(all(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  expect(all(file, 'PRAGMA user_version')).toEqual([{ user_version: schemaVersion }]);
});

it('keeps every row, and gives each what version 8 has besides', async ({ folder }) => {
  const file = unpacked(folder);
  const tables = ['tables', 'runs', 'partitions', 'counts', 'quarantine', 'downloads', 'also', 'missing'];
  const count = () => tables.map((table) => all(file, `SELECT count(*) AS n FROM _sync_${table}`)[0]?.['n']);
  const before = count();
  // The partitions with the highest numbers no longer exist.
  const db = new Database(file);
  db.exec("UPDATE sqlite_sequence SET seq = seq + 10 WHERE name = '_sync_partitions'");
  db.close();
  const sequence = all(file, "SELECT seq FROM sqlite_sequence WHERE name = '_sync_partitions'")[0]?.['seq'];
  const seen = seenRows(file, 4_096);
  await opened(file);
  expect(count()).toEqual(before);
  expect(Math.min(...before.map(Number)), 'the fixture has rows of each').toBeGreaterThan(0);
  expect(all(file, "SELECT seq FROM sqlite_sequence WHERE name = '_sync_partitions'")).toEqual([
    { seq: sequence },
  ]);
  expect(seenRows(file, 1_024)).toEqual(seen);
  expect(seen.length).toBeGreaterThan(0);
  for (const { params, params_hash, parent_key, parent_hash, failure, failure_code, proof, ...row } of all(
    file,
    'SELECT * FROM _sync_partitions',
  )) {
    expect(params_hash).toEqual(textHash(params as string));
    expect(parent_hash).toEqual(parent_key === null ? null : textHash(parent_key as string));
    expect(failure_code).toBe(failure === null ? null : codeOf(failure));
    const { lastPage } = JSON.parse((proof ?? '{}') as string) as {
      lastPage?: { size: number; records: number };
    };
    expect([row['last_page_size'], row['last_page_records']]).toEqual([
      lastPage?.size ?? null,
      lastPage?.records ?? null,
    ]);
  }
  for (const { name, last_row } of all(file, 'SELECT name, last_row FROM _sync_tables')) {
    expect(all(file, `SELECT coalesce(max(_row), 0) AS row FROM "${String(name)}"`)).toEqual([
      { row: last_row },
    ]);
  }
});

it('is read as it is, and says the same once it is migrated', async ({ folder }) => {
  const file = unpacked(folder);
  const before = await told(file);
  expect(all(file, 'PRAGMA user_version')).toEqual([{ user_version: 7 }]);
  await opened(file);
  expect(await told(file)).toEqual(before);
});

it('is whole after a kill in front of any statement of its opening, and opened by the next process', async () => {
  const { bench } = await openStored({ type: 'sqlite', name: 'sqlite' });
  onTestFinished(async () => await bench.close());
  const before = await told(join(bench.folder, ledgerFiles.sqlite));
  const versions = new Set<unknown>();
  const statements = await killedAtEach('sqlite', bench, async (folder, statement) => {
    if (!isLong && statement % 10 !== 0) return;
    const file = join(folder, ledgerFiles.sqlite);
    versions.add(all(file, 'PRAGMA user_version')[0]?.['user_version']);
    await opened(file);
    expect(await told(file), `statement ${statement}`).toEqual(before);
  });
  expect(statements).toBeGreaterThan(50);
  expect([...versions]).toContain(7);
});

// Proves promise 1.7
it('is migrated once by several processes that open it at the same time', async ({ folder }) => {
  const file = join(folder, '0.db');
  renameSync(unpacked(folder), file);
  const before = await told(file);
  const script = testProgram('sinks/sqlite/opening-process.mjs');
  const startAtMs = String(Date.now() + 2_000);
  const openers = Array.from({ length: 4 }, () => startScript([script, folder, '1', startAtMs], folder));
  for (const { result } of openers) expect(await result).toMatchObject({ code: 0, stderr: '' });
  expect(all(file, 'PRAGMA user_version')).toEqual([{ user_version: schemaVersion }]);
  expect(await told(file)).toEqual(before);
});

// Proves promise 1.7
it('is refused where it is of an older version still, and stays as it was', async ({ folder }) => {
  const file = unpacked(folder);
  const db = new Database(file);
  db.pragma('user_version = 6');
  db.close();
  await expect(opened(file)).rejects.toMatchObject({
    code: 'SINK_INCOMPATIBLE',
    message: expect.stringContaining(
      `schema version 6, which is too old; 7 to ${schemaVersion} are expected. Nothing in it was changed. Keep it, and sync into a new sink`,
    ) as string,
  });
  await expect(openHistory(optionsOf(file))).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
  expect(all(file, 'PRAGMA user_version')).toEqual([{ user_version: 6 }]);
});

/** What the ledger says to those who look. */
async function told(file: string): Promise<unknown> {
  await using history = await openHistory(optionsOf(file));
  return [
    await history.connectors(),
    await history.overview(),
    await history.runs({ limit: 1_000 }),
    await history.copies(),
  ];
}

/** Which rows were met, and which of them in their owner. */
function seenRows(file: string, chunkBytes: number): readonly string[] {
  const half = chunkBytes / 2;
  return all(file, 'SELECT * FROM _sync_seen')
    .flatMap(({ connector, entity, origin, chunk, bits }) =>
      [...(bits as Buffer).entries()].flatMap(([index, byte]) =>
        Array.from({ length: 8 }, (_, bit) => bit)
          .filter((bit) => (byte & (1 << bit)) !== 0)
          .map((bit) => {
            const row = Number(chunk) * half * 8 + (index % half) * 8 + bit;
            return `${String(connector)} ${String(entity)} ${String(origin)} ${row} ${index < half ? 'met' : 'that it owns'}`;
          }),
      ),
    )
    .sort();
}

function codeOf(failure: unknown): unknown {
  return (JSON.parse(failure as string) as { code?: string }).code;
}
