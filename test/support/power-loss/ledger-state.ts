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
}

export interface ListedFile {
  /** From the sink's folder; while the file grows, its name has `.open` behind this. */
  readonly path: string;
  readonly length: number;
  readonly hash: string;
  readonly isClosed: boolean;
  /** Its records were dropped; the next holder of the connector removes it. */
  readonly isToGo: boolean;
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
    return { digest: '', integrity, miscounted: [], fetched: new Map(), files: [] };
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
    const state = { digest: digestOf(db, tables), integrity, miscounted: [], fetched: new Map(), files: [] };
    if (tables.length === 0) return state;
    const isJsonl = db.prepare('SELECT kind FROM _sync_meta').pluck().get() === 'jsonl';
    return {
      ...state,
      miscounted: miscountedEntities(db),
      fetched: fetchedByRun(db),
      files: isJsonl ? listedFiles(db) : [],
    };
  } finally {
    db.close();
  }
}

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

interface ListedRow extends Owned {
  readonly epoch: number;
  readonly number: number;
  readonly length: number;
  readonly hash: string;
  readonly isClosed: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
}

function listedFiles(db: Database.Database): readonly ListedFile[] {
  const listed = db.prepare<[], ListedRow>(
    `SELECT connector, entity, epoch, number, length, hash, is_closed AS isClosed, first_seq AS firstSeq, last_seq AS lastSeq
     FROM _sync_files`,
  );
  return listed.all().map(({ connector, entity, epoch, number, length, hash, isClosed, ...range }) => ({
    path: `${connector}/${entity}/${epoch}-${number}.jsonl`,
    length,
    hash,
    isClosed: isClosed === 1,
    isToGo: isClosed === 2,
    seqs:
      isClosed === 2
        ? []
        : db
            .prepare<[number, number], number>(
              `SELECT _seq FROM "${tableOf({ connector, entity })}" WHERE _seq BETWEEN ? AND ? AND _hash NOT IN ('', '-')`,
            )
            .pluck()
            .all(range.firstSeq, range.lastSeq),
  }));
}
