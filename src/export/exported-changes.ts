import { usage } from '../core/errors.ts';
import { writeNumber } from '../core/json.ts';
import type { Column, ColumnValue, EntityTable } from '../core/records.ts';
import type { EntityTarget } from '../settings/choices.ts';
import { isJsonColumn } from '../sinks/decisions/stored-table.ts';
import type { StoredRecord } from '../sinks/readings.ts';
import { checkCopied, openExistingRecords } from '../sinks/registry.ts';
import type { RecordReader } from '../sinks/sink-access.ts';

export type EntityChanges = Awaited<ReturnType<typeof openChanges>>;

/** State that a consumer stores with the records, in the same transaction. */
export type ExportEnd = Awaited<ReturnType<EntityChanges['end']>>;

interface Written {
  readonly upserts: number;
  readonly deletes: number;
}

const searchedRuns = 100;

/** The changes of an entity after a number, in one state of its sink. */
export async function openChanges(target: EntityTarget, sinceSeq: number) {
  const { connector, table: declared } = target;
  const { name } = connector;
  const reader = await openExistingRecords(connector.sink);
  try {
    if (reader !== null) await checkCopied(reader.history, name);
    const stored = (await reader?.table(name, declared.entity)) ?? null;
    return {
      /** The newest number that the sink has given; 0 where it has given none. */
      newestSeq: (await reader?.newestSeq(name)) ?? 0,
      /** Deletes up to this number may have been removed by `retention`; 0: none was. */
      completeAfter: (await reader?.history.completeAfter(name, declared.entity)) ?? 0,
      /** The stored table; the declared one if nothing is stored. */
      table: stored ?? declared,
      records: () =>
        reader === null || stored === null ? noRecords() : reader.changes(name, stored, sinceSeq),
      /** Reads the same state as the records. */
      end: async (written: Written) =>
        reader === null
          ? nothingStored(target, sinceSeq)
          : await exportEnd(target, reader, sinceSeq, written),
      [Symbol.asyncDispose]: async () => await reader?.[Symbol.asyncDispose](),
    };
  } catch (error) {
    await reader?.[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Throws USAGE for a number that this sink never gave, because everything up to it would be taken for known, and for
 * one below which deletes were removed. `called`: the name of the number for the caller.
 */
export function checkSince(
  { newestSeq: newest, completeAfter }: Pick<EntityChanges, 'newestSeq' | 'completeAfter'>,
  { name, connector }: EntityTarget,
  since: number,
  called: string,
): void {
  if (since > 0 && since < completeAfter) {
    throw usage(
      `${called} ${since}: deletes of ${name} up to number ${completeAfter} were removed, as "retention" of the config says, so the changes would not be complete. Reload it: empty the table, then read it again from ${called} 0.`,
    );
  }
  if (since <= newest) return;
  throw usage(
    `${called} ${since}: sink ${connector.sink.name} has numbers up to ${newest} only. The number is from another sink, or this sink was restored from an older backup. Reload ${name}: empty the table, then read it again from ${called} 0.`,
  );
}

async function* noRecords(): AsyncGenerator<readonly StoredRecord[]> {}

async function exportEnd(
  { connector, table }: EntityTarget,
  reader: RecordReader,
  sinceSeq: number,
  written: Written,
) {
  const { name } = connector;
  const { sinkId, history } = reader;
  const runs = await history.runs({ connector: name, kind: 'sync', limit: searchedRuns });
  const run = runs.find(({ state }) => state === 'ok');
  const entities = await history.freshness(name);
  return {
    connector: name,
    entity: table.entity,
    ...written,
    /** Random id made with the sink: numbers mean nothing in another one. Null: there is none yet. */
    sink: sinkId,
    /** Random id of the table: another one than before means that rows went without a change (purge, reset). */
    table: await reader.tableId(name, table.entity),
    sinceSeq,
    /** The number to pass as `--since-seq` the next time. */
    nextSeq: await reader.newestSeq(name),
    /** A later `--since-seq` must be at least this, or 0: older deletes may have been removed. */
    completeAfter: await history.completeAfter(name, table.entity),
    /** The newest sync whose outcome was `ok`; null if none of the newest hundred was. */
    run: run === undefined ? null : { run: run.run, finishedAt: run.finishedAt },
    /** Changes made upstream before this time are included; null if the entity was never read completely. */
    asOf: entities.find(({ entity }) => entity === table.entity)?.asOf ?? null,
    /** The same of every entity of the connector. */
    entities,
  };
}

function nothingStored({ connector, table }: EntityTarget, sinceSeq: number) {
  const nothing = { upserts: 0, deletes: 0, sink: null, table: null, run: null, asOf: null, entities: [] };
  return { connector: connector.name, entity: table.entity, sinceSeq, nextSeq: sinceSeq, ...nothing };
}

/** The text form of records. */
export interface RecordFormat {
  /** Before the first record; '' where nothing stands there. */
  readonly head: string;
  /** One record, with its line end. */
  readonly text: (record: StoredRecord) => string;
}

/** A record per line as JSON, in the shape that the files of a JSONL sink have; of a deleted one the key alone. */
export function jsonlFormat({ columns, key }: EntityTable): RecordFormat {
  return jsonLines({
    columns,
    isKey: columns.map(({ name }) => key.includes(name)),
    own: ({ isDeleted, seq, changedAt, run, extra }) =>
      `${isDeleted || extra === null ? '' : `"_extra":${onOneLine(extra)},`}"_op":"${isDeleted ? 'delete' : 'upsert'}",` +
      `"_seq":${seq},"_changed_at":"${changedAt}","_run_id":${JSON.stringify(run)}`,
  });
}

interface JsonLines {
  readonly columns: readonly Pick<Column, 'name' | 'type'>[];
  /** In the order of the columns. */
  readonly isKey: readonly boolean[];
  /** Writes the members behind the columns. */
  readonly own: (record: StoredRecord) => string;
}

/**
 * A JSON object on a line: every column, absent ones as null, then its own members; of a deleted record the key and its
 * own members.
 */
export function jsonLines({ columns, isKey, own }: JsonLines): RecordFormat {
  const writers = columns.map(memberWriter);
  return {
    head: '',
    text: (record) => {
      const { isDeleted, values } = record;
      let line = '{';
      let index = 0;
      for (const write of writers) {
        if (!isDeleted || isKey[index] === true) line += write(values[index] ?? null);
        index += 1;
      }
      return `${line}${own(record)}}\n`;
    },
  };
}

/** Writes one member and the comma after it; another member always follows. */
function memberWriter({ name, type }: Pick<Column, 'name' | 'type'>): (value: ColumnValue) => string {
  const start = `${JSON.stringify(name)}:`;
  const write = valueWriter(type);
  return (value) => (value === null ? `${start}null,` : `${start}${write(value)},`);
}

function valueWriter(type: Column['type']): (value: string | number | bigint) => string {
  if (isJsonColumn(type)) return (value) => (typeof value === 'string' ? onOneLine(value) : scalar(value));
  if (type === 'boolean') return (value) => (Number(value) === 0 ? 'false' : 'true');
  return scalar;
}

function scalar(value: string | number | bigint): string {
  if (typeof value === 'string') return JSON.stringify(value);
  return typeof value === 'number' ? writeNumber(value) : value.toString();
}

/** In JSON text a raw line break can only be white space between tokens. */
export function onOneLine(json: string): string {
  return json.includes('\n') || json.includes('\r') ? json.replace(/[\n\r]+/g, ' ') : json;
}

interface CsvOptions {
  /**
   * Texts that a spreadsheet would take for a formula get a `'` in front. Off unless asked for: it changes the value,
   * and a program that loads the file would store another one than the source has.
   */
  readonly isSafeForSpreadsheets: boolean;
}

const lineEnd = '\r\n';
const needsQuotes = /[",\r\n]/;
const startsFormula = /^[=+\-@\t\r\n]/;

/**
 * RFC 4180: a heading, then a record per line; commas, CRLF, quotes where they are needed. An absent value is empty, an
 * empty text is `""`. Objects and arrays are JSON, booleans `true` and `false`, numbers have all their digits. Of a
 * deleted record the key alone. Columns: the record's own, then `_extra`, `_op`, `_seq`, `_changed_at`, `_run_id`.
 */
export function csvFormat(table: EntityTable, { isSafeForSpreadsheets }: CsvOptions): RecordFormat {
  const { columns, key } = table;
  return csvLines({
    columns,
    isKey: columns.map(({ name }) => key.includes(name)),
    own: ['_op', '_seq', '_changed_at', '_run_id'],
    ownCells: ({ isDeleted, seq, changedAt, run }) => [isDeleted ? 'delete' : 'upsert', seq, changedAt, run],
    text: (text) => quotedText(isSafeForSpreadsheets && startsFormula.test(text) ? `'${text}` : text),
  });
}

interface CsvLines {
  readonly columns: readonly Pick<Column, 'name' | 'type'>[];
  /** In the order of the columns. */
  readonly isKey: readonly boolean[];
  /** The columns behind `_extra`. */
  readonly own: readonly string[];
  readonly ownCells: (record: StoredRecord) => readonly (string | number | boolean)[];
  /** Writes a string. */
  readonly text?: (value: string) => string;
}

/** A heading and lines: the columns, `_extra` and its own columns; of a deleted record the key and the own ones. */
export function csvLines({ columns, isKey, own, ownCells, text = quotedText }: CsvLines): RecordFormat {
  const writers = columns.map((column) => cellWriter(column, text));
  return {
    head: [...columns.map(({ name }) => name), '_extra', ...own].map(quotedText).join(',') + lineEnd,
    text: (record) => {
      const { isDeleted, values, extra } = record;
      const cells = writers.map((write, index) => {
        const value = isDeleted && isKey[index] !== true ? null : (values[index] ?? null);
        return value === null ? '' : write(value);
      });
      const extraCell = isDeleted || extra === null ? '' : quotedText(extra);
      return [...cells, extraCell, ...ownCells(record)].join(',') + lineEnd;
    },
  };
}

type WriteCell = (value: Exclude<ColumnValue, null>) => string;

/** One cell; `text` writes a string. */
function cellWriter({ type }: Pick<Column, 'type'>, text: (value: string) => string): WriteCell {
  if (type === 'string') return (value) => text(String(value));
  if (type === 'boolean') return (value) => (Number(value) === 0 ? 'false' : 'true');
  return isJsonColumn(type)
    ? (value) => quotedText(String(value))
    : (value) => (typeof value === 'number' ? writeNumber(value) : String(value));
}

function quotedText(text: string): string {
  return text === '' || needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
