import { hash as hashOf } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { readFile } from 'node:fs/promises';
import {
  type OpenHow,
  type Sink,
  damageAdvice,
  damageText,
  type DamagedFile,
  type CheckedFiles,
  type ClosedFiles,
  type ComparedContents,
} from '../sink-access.ts';
import type { RecordTables, LedgerDriver, Lines, RewrittenLines, Taken } from '../ledger/driver.ts';
import { ledgerSink } from '../ledger/ledger-sink.ts';
import { openLedgerFile } from '../sqlite/sqlite-sink.ts';
import { sqliteTables } from '../sqlite/sqlite-tables.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { type Column, type EntityTable, keyTextOf } from '../../core/records.ts';
import { createPrivateDirectory, syncDirectory, syncFile } from '../../files/private-file.ts';
import { type Tx, quoted, explained } from '../../sql/database.ts';
import { openTurns } from '../../sql/turns.ts';
import { ignoreMissing, writeWholeFile } from '../files/write-whole-file.ts';
import { outsideRun, type Ledger } from '../ledger/ledger.ts';
import { storedTables } from '../ledger/tables.ts';
import { toSinkError, type LedgerFormat } from '../sqlite/open-database.ts';
import { sqliteMigrations, tablesSql } from '../sqlite/sqlite-schema.ts';
import { sqliteTx } from '../../sql/sqlite/sqlite-tx.ts';
import { tableName } from '../decisions/stored-table.ts';
import { toColumnValue } from '../../core/canonical-json.ts';
import { isJsonObject, memberOf, type JsonObject, readFields, writeJson } from '../../core/json.ts';
import { openToRead } from '../sqlite/readers.ts';

/** The ledger in `file` has the records; files below `directory` have their changes as lines. */
export async function openJsonlSink(
  options: OpenHow & { readonly directory: string; readonly file: string },
): Promise<Sink> {
  const ledger = await openLedgerFile({ ...options, format: jsonlFormat, records: jsonlTables });
  return ledgerSink({ ...ledger, ...lineFiles(ledger, options) });
}

const jsonlTables: RecordTables = {
  ...sqliteTables,
  keepsVersions: false,
  // Readers of the files have no use for views.
  renewViews: async () => undefined,
  drop: async (tx, connector, entities) => {
    await sqliteTables.drop(tx, connector, entities);
    const sql = `UPDATE _sync_files SET is_dropped = 1 WHERE connector = :connector AND entity IN {entities text}`;
    await tx.run(sql, { connector, entities });
  },
};

/** The next line is in another file once one has this size. */
const maxFileBytes = 64 * 1024 * 1024;
/** Rows that a long run stores become lines after this time, with its next commit. */
const everyMs = 60_000;

/**
 * The files of a JSONL sink. Rows that are committed are what counts; a file holds the lines of those that changed
 * since the file before it. Three steps make a file, so that a kill or a power loss leaves at most one with a temporary
 * name:
 *
 * 1. It is written whole under a temporary name, and synced.
 * 2. A transaction lists it with its hash, and the ledger is synced.
 * 3. It gets its name. If that is not done, the next process that takes the connector does it (`settle`).
 *
 * A file that is written again goes the same way. The holder of a connector removes its dropped files.
 */
function lineFiles(
  ledger: Ledger,
  { directory, file: database }: { readonly directory: string; readonly file: string },
): Pick<LedgerDriver, 'take'> & { readonly lines: Lines } {
  const explain = (error: unknown): unknown =>
    toSinkError(error, database, 'the records are stored, and the next sync writes their lines');
  const turns = openTurns();
  const writtenAt = new Map<ConnectorName, number>();
  const folderOf = (connector: ConnectorName, entity: EntityName): string =>
    join(directory, connector, entity);

  /** A file may be named or removed only when the commit that says so is on the disk. */
  const syncLedger = (): void => syncFile(`${database}-wal`);

  const listed = async (taken: Taken): Promise<readonly ListedFile[]> =>
    await taken.read(async (tx) => await listedFiles(tx, taken.connector));

  /** Throws the first failure once every folder was tried. Unlisted files of `purged` entities go. */
  const settle = async (tx: Tx, connector: ConnectorName, purged: Purged): Promise<void> => {
    const files = await knownFiles(tx, connector);
    const home = join(directory, connector);
    let failure: unknown;
    for (const entity of namesIn(home)) {
      const own = files.filter((file) => file.entity === entity);
      const isPurged = purged === null || purged.some((one) => one === entity);
      try {
        settleFolder(join(home, entity), own, isPurged, syncLedger);
      } catch (error) {
        failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
    removeEmpty(home);
    if (files.some(({ isDropped }) => isDropped)) {
      tx.put(`DELETE FROM _sync_files WHERE connector = :connector AND is_dropped = 1`, { connector });
    }
  };

  const tidy = async (taken: Taken, purged: Purged): Promise<void> =>
    await explained(explain, async () => {
      await outsideRun(taken, async (tx) => await settle(tx, taken.connector, purged));
    });

  /** Writes a file under its temporary name. */
  const write = async (
    connector: ConnectorName,
    file: Pick<ListedFile, 'entity' | 'firstSeq'>,
    bytes: AsyncIterable<Uint8Array>,
  ): Promise<Pick<ListedFile, 'length' | 'hash'>> => {
    const folder = folderOf(connector, file.entity);
    const name = closedName(file);
    createPrivateDirectory(folder);
    const temporary = `${name}${temporaryEndings.partial}`;
    // Remove the partial file of a writer that was killed.
    rmSync(join(folder, temporary), { force: true });
    const whole = `${name}${temporaryEndings.whole}`;
    const written = await writeWholeFile({ folder, name: whole, temporary, bytes, explain });
    return { length: written.bytes, hash: written.sha256 };
  };

  /** Lists files that were written, then gives them their names. */
  const publish = async (taken: Taken, files: readonly ListedFile[]): Promise<void> => {
    const { connector } = taken;
    if (files.length === 0) return;
    await outsideRun(taken, async (tx) => {
      for (const file of files) listFile(tx, connector, file);
    });
    syncLedger();
    for (const file of files) {
      const path = join(folderOf(connector, file.entity), closedName(file));
      renameSync(`${path}${temporaryEndings.whole}`, path);
    }
    for (const entity of new Set(files.map((file) => file.entity))) {
      syncDirectory(folderOf(connector, entity));
    }
  };

  /** `tidy` removes it. */
  const drop = async (taken: Taken, { entity, firstSeq }: ListedFile): Promise<void> => {
    const sql = `UPDATE _sync_files SET is_dropped = 1
      WHERE connector = :connector AND entity = :entity AND first_seq = :firstSeq`;
    const of = { connector: taken.connector, entity, firstSeq };
    await outsideRun(taken, async (tx) => void (await tx.run(sql, of)));
  };

  /** The lines of changes after `after`, up to `through`, in one file; null where there are none. */
  const writeNext = async (
    taken: Taken,
    table: EntityTable,
    range: ChangeRange & { readonly firstSeq?: number },
  ): Promise<ListedFile | null> => {
    const { connector } = taken;
    const linesIn = async (next: ChangeRange) =>
      await taken.read(async (tx) => await storedLines(tx, connector, table, next));
    const first = await linesIn(range);
    if (first === null) return null;
    let through = first.lastSeq;
    const chunks = async function* () {
      let length = 0;
      for (let next: typeof first | null = first; next !== null;) {
        through = next.lastSeq;
        length += next.bytes.length;
        yield next.bytes;
        // A file that replaces another one has all of its range.
        const isWhole = length >= maxFileBytes && range.through === undefined;
        next = isWhole ? null : await linesIn({ ...range, after: through });
      }
    };
    const of = { entity: table.entity, firstSeq: range.firstSeq ?? first.firstSeq };
    const written = await write(connector, of, chunks());
    return { ...of, lastSeq: range.through ?? through, ...written };
  };

  const writeNew = async (taken: Taken): Promise<void> => {
    const written: ListedFile[] = [];
    const files = await listed(taken);
    for (const table of await tablesOf(taken)) {
      let after = files.findLast(({ entity }) => entity === table.entity)?.lastSeq ?? 0;
      for (let file = await writeNext(taken, table, { after }); file !== null;) {
        written.push(file);
        after = file.lastSeq;
        file = await writeNext(taken, table, { after });
      }
    }
    await publish(taken, written);
  };

  const rewrite = async (of: RewrittenLines, taken: Taken | null): Promise<number> => {
    const { connector, table, signal } = of;
    const folder = folderOf(connector, table.entity);
    const read: Taken['read'] = async (work) => await (taken ?? ledger.db).read(work);
    const files = await read(async (tx) => await listedFiles(tx, connector));
    let changed = 0;
    for (const file of files.filter(({ entity }) => entity === table.entity)) {
      signal?.throwIfAborted();
      const bytes = await readListed(folder, file);
      // Without the lease another process may have written it again.
      if (bytes === null && taken === null) continue;
      if (bytes === null) throw damagedError(connector, damageOf(folder, file));
      const lines = await rewrittenLines(bytes, of, { records: ledger.records, read });
      changed += lines.changed;
      if (lines.changed === 0 || taken === null) continue;
      if (lines.kept.length === 0) await drop(taken, file);
      else await publish(taken, [{ ...file, ...(await write(connector, file, Readable.from(lines.kept))) }]);
    }
    if (taken !== null) await tidy(taken, [table.entity]);
    return changed;
  };

  const mend = async (taken: Taken, entities: readonly EntityName[] | null): Promise<void> => {
    const tables = new Map((await tablesOf(taken)).map((table) => [table.entity, table]));
    for (const file of await listed(taken)) {
      if (entities?.includes(file.entity) === false) continue;
      if ((await readListed(folderOf(taken.connector, file.entity), file)) !== null) continue;
      const table = tables.get(file.entity);
      const { firstSeq, lastSeq: through } = file;
      const range = { after: firstSeq - 1, through, firstSeq };
      const written = table === undefined ? null : await writeNext(taken, table, range);
      await (written === null ? drop(taken, file) : publish(taken, [written]));
    }
    await tidy(taken, []);
  };

  return {
    lines: {
      check: async (tx, connector) => {
        const files = await listedFiles(tx, connector);
        const [first, ...others] = files.filter((file) => !hasLength(folderOf(connector, file.entity), file));
        if (first === undefined) return;
        throw damagedError(connector, damageOf(folderOf(connector, first.entity), first), others.length);
      },
      write: async (taken, { isDueOnly = false } = {}) =>
        await explained(explain, async () => {
          const isDue = (): boolean => ledger.clock.now() - (writtenAt.get(taken.connector) ?? 0) >= everyMs;
          if (isDueOnly && !isDue()) return;
          await turns.take(async () => {
            if (isDueOnly && !isDue()) return;
            await writeNew(taken).finally(() => writtenAt.set(taken.connector, ledger.clock.now()));
          });
        }),
      rewrite: async (of, taken) => await explained(explain, async () => await rewrite(of, taken)),
      mend: async (taken, entities) => await explained(explain, async () => await mend(taken, entities)),
      tidy,
    },
    take: async (connector, holder, work) => {
      const taken = await ledger.take(connector, holder, async (tx, epoch) => {
        // The manifest decides which files count; failed steps are tried again.
        await settle(tx, connector, []).catch(() => undefined);
        await work(tx, epoch);
      });
      writtenAt.set(connector, ledger.clock.now());
      let isReleased = false;
      const release = async (): Promise<void> => {
        if (!isReleased) {
          isReleased = true;
          // The next process that takes the connector tries again.
          await turns.take(async () => await tidy(taken, [])).catch(() => undefined);
        }
        await taken.release();
      };
      return { ...taken, release };
    },
  };
}

/** Tables of the connector with all columns that they have had. */
async function tablesOf({ connector, read }: Taken): Promise<readonly EntityTable[]> {
  const tables = await read(async (tx) => await storedTables(tx, connector));
  return tables.map(({ entity, stored, key }) => ({ entity, columns: stored, key }));
}

function damagedError(connector: ConnectorName, first: DamagedFile, others = 0): SyncError {
  const more = others === 0 ? '' : ` (and ${others} more files of this connector are damaged)`;
  return new SyncError(`${damageText(first)}${more}. ${damageAdvice(connector, 'connector-sync')}`, {
    code: 'SINK_DAMAGED',
    recovery: 'stop',
    context: { file: first.path, files: others + 1 },
  });
}

/** Entities whose files are removed if the manifest does not list them; null: all of the connector. */
type Purged = readonly EntityName[] | null;

/**
 * Gives listed files their names, and removes dropped and unfinished ones. A file that no row knows has changes which
 * will be written again under their numbers: it loses its ending. `sync` is called before the first change.
 */
function settleFolder(folder: string, known: readonly KnownFile[], isPurged: boolean, sync: () => void) {
  const files = new Map(known.map((file) => [closedName(file), file]));
  const changes = namesIn(folder).flatMap((name): (() => void)[] => {
    const read = readFileName(name);
    if (read === null) return [];
    const path = join(folder, name);
    const file = files.get(read.closed);
    const isListed = file?.isDropped === false;
    const isWhole = read.ending === '';
    if (isWhole ? isListed : read.ending === unlistedEnding && !isPurged) return [];
    if (isWhole && file === undefined && !isPurged) {
      return [() => renameSync(path, `${path}${unlistedEnding}`)];
    }
    const isToName =
      isListed &&
      read.ending === temporaryEndings.whole &&
      file.hash === hashOf('sha256', readFileSync(path), 'hex');
    return [() => (isToName ? renameSync(path, join(folder, read.closed)) : rmSync(path))];
  });
  if (changes.length > 0) {
    sync();
    for (const change of changes) change();
    syncDirectory(folder);
  }
  if (removeEmpty(folder)) syncDirectory(dirname(folder));
}

/** Anything but an empty folder stays. */
function removeEmpty(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return false;
  }
}

function namesIn(directory: string): readonly string[] {
  return statSync(directory, { throwIfNoEntry: false })?.isDirectory() === true ? readdirSync(directory) : [];
}

interface ChangeRange {
  readonly after: number;
  readonly through?: number;
}

/** Bytes after which a read of lines ends: rows may be large. */
const bytesAtOnce = 1024 * 1024;

/** The next lines of rows as they are stored, in the order of their newest changes; null where there are none. */
async function storedLines(
  tx: Tx,
  connector: ConnectorName,
  table: EntityTable,
  { after, through = Number.MAX_SAFE_INTEGER }: ChangeRange,
) {
  const statement = await sqliteTx(tx).prepared(
    `SELECT _seq, ${lineSql(table)} FROM ${quoted(tableName(connector, table.entity))}
     WHERE _seq > ? AND _seq <= ? ORDER BY _seq`,
  );
  const lines: Buffer[] = [];
  let [firstSeq, lastSeq, length] = [0, 0, 0];
  for (const [seq, line] of statement.iterate(after, through) as Iterable<[number, Buffer]>) {
    if (lines.length === 0) firstSeq = seq;
    lastSeq = seq;
    lines.push(onOneLine(line));
    length += line.length;
    if (length >= bytesAtOnce) break;
  }
  return lines.length === 0 ? null : { bytes: Buffer.concat(lines, length), firstSeq, lastSeq };
}

const [newline, carriageReturn, space] = [10, 13, 32];

/** In JSON text a raw line break can only be white space between tokens. Changes the line itself. */
function onOneLine(line: Buffer): Buffer {
  for (const lineBreak of [newline, carriageReturn]) {
    for (let at = line.indexOf(lineBreak); at >= 0 && at < line.length - 1;) {
      line[at] = space;
      at = line.indexOf(lineBreak, at);
    }
  }
  return line;
}

/** Fewer than SQLite takes for a function. */
const mostArguments = 100;

/**
 * The line of a row as a BLOB of SQLite: the same as of `jsonlFormat`, in less than half of the time, because no cell
 * becomes a value of JavaScript. Line breaks between tokens stay in it. `json_number` is `writeNumber`.
 */
export function lineSql({ columns, key }: EntityTable): string {
  const members = (of: readonly Column[]): readonly string[] =>
    of.flatMap((column, index) => [
      literal(`${index === 0 ? '{' : ','}${JSON.stringify(column.name)}:`),
      valueSql(column),
    ]);
  const keyColumns = columns.filter(({ name }) => key.includes(name));
  const upsert = [...members(columns), `',"_extra":' || _extra`, `',"_op":"upsert"'`];
  const deletion = [...members(keyColumns), `',"_op":"delete"'`];
  const ending = concat([
    `',"_seq":'`,
    '_seq',
    `',"_changed_at":"'`,
    '_changed_at',
    `'","_run_id":'`,
    'json_quote(_run_id)',
    `'}' || char(10)`,
  ]);
  return `CAST(iif(_deleted_at IS NULL, ${concat([...upsert, ending])}, ${concat([...deletion, ending])}) AS BLOB)`;
}

function valueSql({ name, type }: Column): string {
  const cell = quoted(name);
  if (type === 'string') return `json_quote(${cell})`;
  if (type === 'boolean') return `CASE WHEN ${cell} = 0 THEN 'false' ELSE iif(${cell}, 'true', 'null') END`;
  return `coalesce(${type === 'number' ? `json_number(${cell})` : cell}, 'null')`;
}

/** A null is an empty text. */
function concat(texts: readonly string[]): string {
  if (texts.length <= mostArguments) return `concat(${texts.join(', ')})`;
  const groups = Array.from({ length: Math.ceil(texts.length / mostArguments) }, (_, index) =>
    concat(texts.slice(index * mostArguments, (index + 1) * mostArguments)),
  );
  return concat(groups);
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

const linesAtOnce = 500;

/**
 * Lines of a file as they are to be, and how many change or go. A line of a record whose row is gone goes, as does one
 * that `line` removes.
 */
async function rewrittenLines(
  bytes: Buffer,
  { connector, table, line }: RewrittenLines,
  { records, read }: { readonly records: RecordTables } & Pick<Taken, 'read'>,
) {
  const rows = records.open({ connector, table, stored: table.columns });
  const keyTextIn = keyReader(table);
  const kept: Buffer[] = [];
  let changed = 0;
  const all = linesOf(bytes);
  for (let at = 0; at < all.length; at += linesAtOnce) {
    const parsed = all.slice(at, at + linesAtOnce).map((was) => {
      const value = readFields(was.toString('utf8', 0, was.length - 1));
      if (!isJsonObject(value)) return { was, value: null, after: null };
      const after = line(value, { keyText: keyTextIn(value), seq: Number(value['_seq']) });
      return { was, value, after };
    });
    const keyTexts = parsed.flatMap(({ after }) => (after === null ? [] : [keyTextIn(after)]));
    const stored = await read(async (tx: Tx) => await rows.rowsOf(tx, [...new Set(keyTexts)]));
    for (const { was, value, after } of parsed) {
      const isKept = after !== null && stored.has(keyTextIn(after));
      if (!isKept || after !== value) changed += 1;
      if (isKept) kept.push(after === value ? was : Buffer.from(lineText(after)));
    }
    await setImmediate();
  }
  return { kept, changed };
}

function linesOf(bytes: Buffer): readonly Buffer[] {
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
    lines.push(bytes.subarray(start, end + 1));
    start = end + 1;
  }
  return lines;
}

function keyReader({ key, columns }: EntityTable): (line: JsonObject) => string {
  const types = new Map(columns.map(({ name, type }) => [name, type]));
  return (line) =>
    keyTextOf(
      key.map(
        (name) => toColumnValue({ type: types.get(name) ?? 'any' }, memberOf(line, name) ?? null) ?? null,
      ),
    );
}

/** Writes the members of a line in their order. */
function lineText(line: JsonObject): string {
  const members = Object.entries(line).map(([name, value]) => `${JSON.stringify(name)}:${writeJson(value)}`);
  return `{${members.join(',')}}\n`;
}

/**
 * The manifest: a row for each file of lines. A file has the lines of changes from `first_seq`, which is its name, up
 * to `last_seq`; changes above the highest `last_seq` of an entity are in no file yet. A file with `is_dropped` is to
 * be removed.
 */
const filesSql = `
CREATE TABLE _sync_files (
  connector TEXT NOT NULL,
  entity TEXT NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  length INTEGER NOT NULL,
  hash TEXT NOT NULL,
  is_dropped INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (connector, entity, first_seq)
) STRICT, WITHOUT ROWID;
`;

/** The ledger of a JSONL sink. */
export const jsonlFormat: LedgerFormat = {
  kind: 'jsonl',
  sql: `${tablesSql}${filesSql}`,
  migrations: sqliteMigrations,
};

interface ListedFile {
  readonly entity: EntityName;
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** In bytes. */
  readonly length: number;
  /** SHA-256, in hex. */
  readonly hash: string;
}

interface KnownFile extends ListedFile {
  readonly isDropped: boolean;
}

/** Name of a closed file. Names sort like the lines, by change numbers. */
function closedName({ firstSeq }: Pick<ListedFile, 'firstSeq'>): string {
  return `${String(firstSeq).padStart(12, '0')}.jsonl`;
}

/** The name of a whole file until the manifest has it, and of one that is being written. */
const temporaryEndings = { whole: '.next', partial: '.part' } as const;
/** The ending of a file that no row knows: its ledger was lost, or replaced by an older one. */
const unlistedEnding = '.unlisted';

/**
 * Names of this sink: `closed` is the name that the file has, or is to have. Null for another name: files of other
 * programs are not touched.
 */
function readFileName(name: string): { readonly closed: string; readonly ending: string } | null {
  const [, closed, ending = ''] = /^(\d{12,16}\.jsonl)(\.next|\.part|\.unlisted)?$/.exec(name) ?? [];
  return closed === undefined ? null : { closed, ending };
}

async function knownFiles(tx: Tx, connector: ConnectorName): Promise<readonly KnownFile[]> {
  return await tx.rows<KnownFile>(
    `SELECT entity, first_seq, last_seq, length, hash, is_dropped FROM _sync_files
     WHERE connector = :connector ORDER BY entity, first_seq`,
    { connector },
  );
}

/** Files that are part of the sink, in the order of their lines. */
async function listedFiles(tx: Tx, connector: ConnectorName): Promise<readonly ListedFile[]> {
  return (await knownFiles(tx, connector)).filter(({ isDropped }) => !isDropped);
}

/** Lists a file, or the new content of a rewritten one. */
function listFile(tx: Tx, connector: ConnectorName, file: ListedFile): void {
  tx.put(
    `INSERT INTO _sync_files (connector, entity, first_seq, last_seq, length, hash)
     VALUES (:connector, :entity, :firstSeq, :lastSeq, :length, :hash)
     ON CONFLICT (connector, entity, first_seq) DO UPDATE SET
       last_seq = excluded.last_seq, length = excluded.length, hash = excluded.hash, is_dropped = 0`,
    { ...file, connector },
  );
}

/* Comparison of a file with the manifest. */

/**
 * Between the commit that lists a file and its renaming, the file has its temporary name; another process may rename it
 * between the attempts.
 */
function pathsOf(directory: string, file: ListedFile): readonly [string, ...string[]] {
  const closed = join(directory, closedName(file));
  return [closed, `${closed}${temporaryEndings.whole}`, closed];
}

function sizeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.size ?? null;
}

/** Describes a file whose content is not the listed one. */
function damageOf(directory: string, file: ListedFile): DamagedFile {
  const [path] = pathsOf(directory, file);
  return { entity: file.entity, path, length: file.length, found: sizeOf(path) };
}

/** Whether a file has the listed length. `directory`: of the file's entity. */
function hasLength(directory: string, file: ListedFile): boolean {
  return pathsOf(directory, file).some((path) => sizeOf(path) === file.length);
}

/** Reads a whole file; null where the content is not the listed one. */
async function readListed(directory: string, file: ListedFile): Promise<Buffer | null> {
  for (const path of pathsOf(directory, file)) {
    if (sizeOf(path) !== file.length) continue;
    const bytes = await readFile(path).catch(ignoreMissing);
    if (bytes !== undefined && hashOf('sha256', bytes, 'hex') === file.hash) return bytes;
  }
  return null;
}

/**
 * Compares the closed files of a JSONL sink, as listed in the manifest, with `directory`. Reads only, without a lease,
 * beside a process that writes. Throws when there is no sink yet.
 */
export function openJsonlClosedFiles(directory: string, ledger: string): ClosedFiles {
  const { db } = openToRead({ file: ledger, format: jsonlFormat });

  const list = async (connector: ConnectorName): Promise<readonly ListedFile[]> =>
    await db.read(async (tx) => await listedFiles(tx, connector));

  const check = async (
    connector: ConnectorName,
    how: ComparedContents | undefined,
  ): Promise<CheckedFiles> => {
    const files = await list(connector);
    const damaged: ListedFile[] = [];
    const folderOf = ({ entity }: ListedFile): string => join(directory, connector, entity);
    const allBytes = files.reduce((sum, { length }) => sum + length, 0);
    let bytes = 0;
    for (const [index, file] of files.entries()) {
      how?.signal.throwIfAborted();
      const isSound =
        how === undefined
          ? hasLength(folderOf(file), file)
          : (await readListed(folderOf(file), file)) !== null;
      if (!isSound) damaged.push(file);
      bytes += file.length;
      how?.onProgress({ files: index + 1, allFiles: files.length, bytes, allBytes });
    }
    // Leave out files that another process has removed or rewritten since they were listed.
    const now = damaged.length === 0 ? new Set() : new Set((await list(connector)).map(identityOf));
    const still = damaged.filter((file) => now.has(identityOf(file)));
    return { files: files.length, damaged: still.map((file) => damageOf(folderOf(file), file)) };
  };

  return {
    check: async (connector, how) =>
      await explained(
        (error) => (how?.signal.aborted === true ? error : toSinkError(error, ledger)),
        async () => await check(connector, how),
      ),
    [Symbol.asyncDispose]: async () => await db[Symbol.asyncDispose](),
  };
}

function identityOf({ entity, firstSeq, length, hash }: ListedFile): string {
  return JSON.stringify([entity, firstSeq, length, hash]);
}
