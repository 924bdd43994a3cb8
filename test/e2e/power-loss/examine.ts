import { createHash } from 'node:crypto';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Contents, Recording, ToldLine } from './recording.ts';
import { contentsAfter, writeContents } from './disk.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';

interface LeftBehind {
  readonly contents: Contents;
  /** The sink's database, and the folder of its lines where it has some: paths in the contents. */
  readonly ledger: string;
  readonly lines: string | null;
  readonly isDurable: boolean;
  readonly commits: Commits;
  /** After so many operations power was lost. */
  readonly count: number;
  readonly told: Told;
}

export type Examined = ReturnType<typeof examine>;

/** Holds what a loss of power has left against what the sink promises, before any program has repaired it. */
export function examine(left: LeftBehind) {
  const { contents, ledger, isDurable, commits, count, told } = left;
  const state = readLedger(contents, ledger);
  if (state.integrity !== 'ok') {
    return { faults: [`ledger: ${state.integrity}`], rolledBack: 0 };
  }
  const faults = state.miscounted.map((entity) => `miscounted ${entity}`);
  const found = commits.find(state.digest, count);
  if (found === null) faults.push('the ledger is in a state that no commit has left');
  if (isDurable && found !== null && found < commits.newest(told.at)) {
    faults.push(`commit ${commits.newest(told.at)} was acknowledged, and the last one there is ${found}`);
  }
  const unstored = [...told.fetched].filter(([page, records]) => (state.fetched.get(page) ?? 0) < records);
  if (isDurable && unstored.length > 0) {
    faults.push(`pages were reported as committed of ${unstored.join(', ')}`);
  }
  for (const file of state.files) {
    if (isWhole(left, file)) faults.push(...wrongLines(left, file));
    else faults.push(`${file.path} is not there as it was written`);
  }
  return {
    /** What breaks a promise; one line each. */
    faults: [...faults, ...strayFiles(left, state)],
    /** Commits at the end that are not there. */
    rolledBack: commits.newest(count) - (found ?? -1),
  };
}

/** The next process that takes the connector gives it its name. */
function contentOf({ contents, lines }: LeftBehind, { path, hash }: ListedFile): Buffer | undefined {
  const at = `${lines ?? ''}/${path}`;
  return [contents.get(at), contents.get(`${at}.next`)].find(
    (content): content is Buffer =>
      Buffer.isBuffer(content) && createHash('sha256').update(content).digest('hex') === hash,
  );
}

function isWhole(left: LeftBehind, file: ListedFile): boolean {
  return contentOf(left, file)?.length === file.length;
}

/** Each key has its last line, and no change has two. */
function wrongLines(left: LeftBehind, file: ListedFile): readonly string[] {
  const lines = (contentOf(left, file) ?? '').toString().trimEnd().split('\n');
  const seqs = lines.map((line) => (JSON.parse(line) as JsonObject)['_seq']);
  const known = new Set(seqs);
  const doubled = known.size === seqs.length ? [] : [`${file.path} holds a change twice`];
  const missing = file.seqs.filter((seq) => !known.has(seq)).map((seq) => `${file.path} has no line ${seq}`);
  return [...doubled, ...missing];
}

/**
 * Readers take files by their names: each is listed, or its records were dropped. One that is neither would be written
 * again with other lines.
 */
function strayFiles({ contents, lines }: LeftBehind, { files, newest }: LedgerState): readonly string[] {
  if (lines === null) return [];
  const listed = new Set(files.map(({ path }) => `${lines}/${path}`));
  return [...contents.keys()].flatMap((path) => {
    const [, entity = '', number] = /^[^/]+\/(.+)\/(\d+)\.jsonl$/.exec(path) ?? [];
    const isStray = number !== undefined && !listed.has(path) && (newest.get(entity) ?? 0) >= Number(number);
    return isStray ? [`${path} has its name, and the ledger does not list it`] : [];
  });
}

/** The transactions of a recorded ledger, numbered from 0; -1 is the state before the first. */
export interface Commits {
  /** The newest whose last write is among the first `count` operations. */
  newest(count: number): number;
  /** The newest of those after which the ledger was as this digest says; null where it never was. */
  find(digest: string, count: number): number | null;
}

/** `ledger`: the path of the database in the recorded folder. */
export function commitsOf(recording: Recording, ledger: string): Commits {
  const ends = commitEnds(recording);
  const digests = new Map<number, string>();
  const digestAfter = (commit: number): string => {
    const known = digests.get(commit);
    if (known !== undefined) return known;
    const { digest } = readLedger(contentsAfter(recording, ends[commit] ?? 0, { random: null }), ledger);
    digests.set(commit, digest);
    return digest;
  };
  const newest: Commits['newest'] = (count) => ends.findLastIndex((end) => end <= count);
  return {
    newest,
    find: (digest, count) => {
      for (let commit = newest(count); commit >= -1; commit -= 1) {
        if (digestAfter(commit) === digest) return commit;
      }
      return null;
    },
  };
}

const frameHeadBytes = 24;

/**
 * After how many operations each transaction stood in SQLite's log: its last frame carries the size of the database in
 * its head, and the page is written behind that.
 */
function commitEnds({ operations }: Recording): readonly number[] {
  const logs = new Set<number>();
  const ending = new Set<number>();
  const ends: number[] = [];
  for (const [index, operation] of operations.entries()) {
    if (operation.kind === 'opened') {
      logs.delete(operation.descriptor);
      if (operation.path.endsWith('-wal')) logs.add(operation.descriptor);
    }
    if (operation.kind !== 'written' || !logs.has(operation.descriptor)) continue;
    const { descriptor, data } = operation;
    if (ending.delete(descriptor)) ends.push(index + 1);
    else if (data.length === frameHeadBytes && data.readUInt32BE(4) > 0) ending.add(descriptor);
  }
  return ends;
}

/** What the program had reported to its user at some point. */
export interface Told {
  /** After how many operations the last of it was reported. */
  readonly at: number;
  /** Of the account that was being read. */
  readonly revision: number;
  /** `run entity` -> records of the pages that were reported as committed. */
  readonly fetched: ReadonlyMap<string, number>;
}

export function toldBy({ operations }: Recording, count: number): Told {
  const fetched = new Map<string, number>();
  let [at, revision, run] = [0, 0, ''];
  for (const [index, operation] of operations.slice(0, count).entries()) {
    if (operation.kind !== 'told') continue;
    at = index + 1;
    const line = JSON.parse(operation.text) as ToldLine;
    if (line.kind === 'step-begins') revision = line.revision;
    if (line.kind === 'run-started') run = line.run;
    if (line.kind === 'page-committed') {
      const of = `${run} ${line.entity}`;
      fetched.set(of, (fetched.get(of) ?? 0) + line.counts.fetched);
    }
  }
  return { at, revision, fetched };
}

/** What a reader finds in the database that holds the ledger, after SQLite has recovered it. */
interface LedgerState {
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

interface ListedFile {
  /** From the sink's folder; until the file has its name, `.next` is behind this. */
  readonly path: string;
  readonly length: number;
  readonly hash: string;
  /** Change numbers of the keys whose last line is in this file. */
  readonly seqs: readonly number[];
}

/** Looks at a copy: recovering the database is left to the program. `ledger`: its path in the contents. */
function readLedger(contents: Contents, ledger: string): LedgerState {
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
