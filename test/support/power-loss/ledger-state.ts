import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { writeContents } from './disk.ts';
import type { Contents } from './recording.ts';

/** What a reader finds in the database that holds the ledger, after SQLite has recovered it. */
export interface LedgerState {
  /** Of every table and row: two states with one digest are the same. */
  readonly digest: string;
  /** What `PRAGMA integrity_check` says; an error where the file cannot be read at all. */
  readonly integrity: string;
  /** Entities whose number of rows is not the number that the ledger has counted. */
  readonly miscounted: readonly string[];
  /** `run entity` -> records fetched. */
  readonly fetched: ReadonlyMap<string, number>;
  /** Of a JSONL sink: the files of lines that belong to it. */
  readonly files: readonly ListedFile[];
  /** `connector/entity` -> the newest change number of its rows. */
  readonly newest: ReadonlyMap<string, number>;
}

export interface ListedFile {
  /** From the sink's folder; until the file has its name, `.next` is behind this. */
  readonly path: string;
  readonly length: number;
  readonly hash: string;
  /** Change numbers of the keys whose last line is in this file. */
  readonly seqs: readonly number[];
}

/** Looks at a copy: recovering the database is left to the program. `ledger`: its path in the contents. */
export function readLedger(contents: Contents, ledger: string): LedgerState {
  const folder = mkdtempSync(join(tmpdir(), 'power-loss-'));
  try {
    // Where it was not made yet, or its making is lost, there is nothing of it either.
    if (!contents.has(ledger)) return readDatabase(':memory:');
    writeContents(new Map([...contents].filter(([path]) => isOfLedger(path, ledger))), folder);
    return readDatabase(join(folder, ledger));
  } catch (error) {
    const integrity = error instanceof Error ? error.message : 'unreadable';
    return { ...nothing, digest: '', integrity };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The database, what SQLite keeps beside it, and the folder that they are in. */
function isOfLedger(path: string, ledger: string): boolean {
  return ledger.startsWith(`${path}/`) || [ledger, `${ledger}-wal`, `${ledger}-journal`].includes(path);
}

function readDatabase(file: string): LedgerState {
  const db = new Database(file);
  try {
    const integrity = String(db.pragma('integrity_check', { simple: true }));
    const tables = db
      .prepare<[], Table>(`SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
      .all();
    const state = { ...nothing, digest: digestOf(db, tables), integrity };
    if (tables.length === 0) return state;
    const isJsonl = db.prepare('SELECT kind FROM _sync_meta').pluck().get() === 'jsonl';
    return {
      ...state,
      miscounted: miscountedEntities(db),
      fetched: fetchedByRun(db),
      files: isJsonl ? listedFiles(db) : [],
      newest: newestChanges(db),
    };
  } finally {
    db.close();
  }
}

const nothing = { miscounted: [], fetched: new Map(), files: [], newest: new Map() };

interface Table {
  readonly name: string;
  readonly sql: string;
}

function digestOf(db: Database.Database, tables: readonly Table[]): string {
  const hash = createHash('sha256');
  for (const { name, sql } of tables) {
    hash.update(`${sql}\n`);
    for (const row of db.prepare<[], unknown[]>(`SELECT * FROM "${name}"`).raw().iterate()) {
      hash.update(
        JSON.stringify(row.map((value) => (Buffer.isBuffer(value) ? value.toString('hex') : value))),
      );
    }
  }
  return hash.digest('hex');
}

function tableOf({ connector, entity }: Owned): string {
  return `${connector.replaceAll('-', '_')}__${entity}`;
}

interface Owned {
  readonly connector: string;
  readonly entity: string;
}

function miscountedEntities(db: Database.Database): readonly string[] {
  const counted = db.prepare<[], Owned & { readonly rows: number }>(
    'SELECT connector, entity, rows FROM _sync_tables',
  );
  return counted.all().flatMap(({ rows, ...owner }) => {
    const stored = db
      .prepare(`SELECT count(*) FROM "${tableOf(owner)}"`)
      .pluck()
      .get();
    return stored === rows ? [] : [`${owner.entity}: ${String(stored)} rows, and the ledger counts ${rows}`];
  });
}

function fetchedByRun(db: Database.Database): ReadonlyMap<string, number> {
  const counts = db.prepare<[], [string, number]>("SELECT run || ' ' || entity, fetched FROM _sync_counts");
  return new Map(counts.raw().all());
}

function newestChanges(db: Database.Database): ReadonlyMap<string, number> {
  const tables = db.prepare<[], Owned>('SELECT connector, entity FROM _sync_tables').all();
  return new Map(
    tables.map((owner) => {
      const newest = db
        .prepare<[], number | null>(`SELECT max(_seq) FROM "${tableOf(owner)}"`)
        .pluck()
        .get();
      return [`${owner.connector}/${owner.entity}`, newest ?? 0];
    }),
  );
}

interface ListedRow extends Owned {
  readonly length: number;
  readonly hash: string;
  readonly firstSeq: number;
  readonly lastSeq: number;
}

function listedFiles(db: Database.Database): readonly ListedFile[] {
  const listed = db.prepare<[], ListedRow>(
    `SELECT connector, entity, length, hash, first_seq AS firstSeq, last_seq AS lastSeq FROM _sync_files
     WHERE is_dropped = 0`,
  );
  return listed.all().map(({ length, hash, firstSeq, lastSeq, ...owner }) => ({
    path: `${owner.connector}/${owner.entity}/${String(firstSeq).padStart(12, '0')}.jsonl`,
    length,
    hash,
    seqs: db
      .prepare<[number, number], number>(
        `SELECT _seq FROM "${tableOf(owner)}" WHERE _seq BETWEEN ? AND ? AND _hash NOT IN ('', '-')`,
      )
      .pluck()
      .all(firstSeq, lastSeq),
  }));
}
