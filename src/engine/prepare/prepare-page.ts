import { hash } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue, isJsonArray, writeJson } from '../../core/json.ts';
import type { EntityName } from '../../core/names.ts';
import type { FieldDrift, PreparedRecord, Quarantined } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { FoundPartition, Partition } from '../../sinks/partition.ts';
import type { PageRecords } from '../../source/source.ts';
import { anyJsonWithout, wholeJson } from '../../core/canonical-json.ts';
import { styleOf } from '../../pagination/pagination-of.ts';
import type { ChangeSpan } from '../../pagination/pagination.ts';
import { compileChangeSpan, countUndated } from './change-span.ts';
import { compilePrepareBytes, type ShownRecord } from './prepare-bytes.ts';
import { compileCompare, compileContentText } from './row-content.ts';
import {
  compileFindChildren,
  markerField,
  type FindingRun,
  fieldsOfDescents,
  placeInTree,
} from './find-children.ts';
import {
  compileFileOfRecord,
  asPartial,
  isOfKind,
  isPartial,
  compilePrepare,
  noFields,
  type LookedRow,
  type Prepared,
  readingVersion,
  compileHashKey,
  unstablePaths,
  compileKeyOf,
  recordShape,
  type RecordShape,
  explodedShape,
  shortHash,
} from './prepare-record.ts';
import { acceptEverything, type SchemaPolicies, type SchemaPolicy } from './schema-policy.ts';
import type { FoundRow, LookedRecord } from '../../sinks/stored-keys.ts';

/** A page, ready to be stored: every fetched record is in `rows`, `refused`, `filtered` or `foreign`. */
export type PreparedPage = Readonly<Awaited<ReturnType<ReturnType<typeof compilePreparePage>>>>;

interface PageContext {
  /** Records of this listing before the page. */
  readonly alreadyRead: number;
  /** When the page was answered, by the service's clock, in milliseconds. */
  readonly answeredMs: number;
  /** Most that the clock that dates the records is behind that one, by earlier pages and walks. Null: not known. */
  readonly differenceMs: number | null;
}

type PreparingRun = FindingRun & {
  readonly policies: SchemaPolicies;
  /** Absent: every record is read. */
  readonly remembered?: RememberedRows;
};

/**
 * The function throws `SyncError` SCHEMA_CHANGED where a policy wants a change to fail the entity. Tables without a
 * policy accept every change.
 */
export function compilePreparePage(run: PreparingRun, entity: Entity) {
  const addRecord = compileAddRecord(run, entity);
  const recognize = compileRecognize(run, entity);
  const changeSpan = entity.incremental === null ? null : compileChangeSpan(entity.incremental);
  const datedBy = entity.incremental?.field ?? markerField(run, entity.name);
  const dateSpan = changeSpan ?? (datedBy === null ? null : compileChangeSpan({ field: datedBy }));
  // Where the other end of a listing is read, times tell whether both have met.
  const endSpan =
    changeSpan ??
    compileWindowSpan(entity) ??
    (entity.cut?.reversed === undefined || entity.order === null
      ? null
      : compileChangeSpan({ field: entity.order.field }));
  const isSorted = compileIsSorted(entity, run.capMs, datedBy);
  const explodedInto = entity.explode?.into;

  return async (
    partition: Partition,
    records: PageRecords,
    { alreadyRead, answeredMs, differenceMs: knownMs }: PageContext,
  ) => {
    const shown = await recognize(partition, records);
    const glances = shown.map(({ glance }) => glance);
    const dates = dateSpan === null ? [] : glances.map(dateSpan);
    const shownMs = differenceMs(answeredMs, dates);
    const page = emptyPage(partition, alreadyRead, run.capMs - (smaller(knownMs, shownMs) ?? 0));
    for (const record of shown) addRecord(page, record);
    const { facts, stored, rows, exploded, drift, extraFields, explodedExtra } = page;
    return {
      ...facts,
      /** Content of the page for the commit. */
      stored: {
        ...stored,
        rows: [
          { entity: entity.name, records: rows },
          ...(explodedInto === undefined ? [] : [{ entity: explodedInto, records: exploded }]),
        ],
        drift: [...drift],
      },
      /** One per record: its change values. Empty where nothing rests on them. */
      changes: endSpan === null ? [] : endSpan === changeSpan ? dates : glances.map(endSpan),
      /** Records whose change value is no time. */
      undated: entity.incremental === null ? 0 : countUndated(entity.incremental, glances, dates),
      /** Most that the clock that dates the records is behind the service's, by this page. Null: it does not say. */
      differenceMs: shownMs,
      /** False: the records contradict the order that was asked for. */
      isSorted: isSorted(glances, dates),
      /** Entity -> fields kept in `_extra`. */
      extraFields: new Map([
        [entity.name, extraFields],
        ...(explodedInto === undefined ? [] : [[explodedInto, explodedExtra] as const]),
      ]),
    };
  };
}

/** Times of records that must lie in the window of their listing, in its format or in ISO 8601; null: none must. */
function compileWindowSpan({ windows }: Entity) {
  if (windows === null || windows.field === null) return null;
  const { field, format } = windows;
  const ofFormat = compileChangeSpan({ field, format });
  const ofIso = compileChangeSpan({ field });
  return (raw: JsonValue): ChangeSpan | null => ofFormat(raw) ?? ofIso(raw);
}

type Page = ReturnType<typeof emptyPage>;

/** Collects the results of a page's records; at first empty. */
function emptyPage(partition: Partition, alreadyRead: number, settledMs: number) {
  return {
    partition,
    settledMs,
    /** Position of the next record in its listing. */
    position: alreadyRead,
    rows: [] as PreparedRecord[],
    exploded: [] as PreparedRecord[],
    stored: { filtered: 0, foreign: 0, refused: [] as Quarantined[], children: [] as FoundPartition[] },
    drift: new Set<FieldDrift>(),
    extraFields: 0,
    explodedExtra: 0,
    facts: {
      /** Marks by which the pagination recognizes records: one per record of the response, in its order. */
      marks: [] as string[],
      /** Keys of the records that can be identified even if everything else in them changes. */
      keys: [] as string[],
      /** Elements found in exploded arrays. */
      explodedFetched: 0,
      depthLimited: 0,
      /** Records of `rows` that came only in part. */
      partial: 0,
    },
  };
}

/** Adds a record to its page. It reads only the record's `glance`. */
function compileAddRecord(run: PreparingRun, entity: Entity): (page: Page, shown: ShownRecord) => void {
  const policyOf = (table: EntityName) => run.policies.get(table) ?? acceptEverything;
  const shape = recordShape(entity, policyOf(entity.name));
  const readRecord = compileReadRecord(run, entity, shape);
  const markOf = compileMark(entity, shape);
  const explode = compileExplode(entity, policyOf(entity.explode?.into ?? entity.name));
  const findChildren = compileFindChildren(run, entity);
  const withHash = compileHashKey(entity);
  const unstable = unstablePaths(entity);

  function addElements(page: Page, raw: JsonObject, inject: Partition['inject']): void {
    for (const element of explode?.(raw, inject) ?? []) {
      page.facts.explodedFetched += 1;
      for (const note of element.drift) page.drift.add(note);
      if (element.kind === 'refused') page.stored.refused.push(element.refused);
      else {
        page.exploded.push(element.record);
        page.explodedExtra += element.extraFields;
      }
    }
  }

  return (page, shown) => {
    const raw = shown.glance;
    const { partition, rows, settledMs, stored, facts } = page;
    const { marks, keys } = facts;
    const positionInListing = page.position++;
    if (isJsonObject(raw) && !isOfKind(entity, raw)) {
      const mark = `filtered:${idOf(raw)}`;
      marks.push(mark);
      if (raw['id'] !== undefined) keys.push(mark);
      stored.filtered += 1;
      return;
    }
    const placed =
      entity.recursive === null || !isJsonObject(raw)
        ? null
        : placeInTree(entity.recursive, partition, raw, { positionInListing, isBackfill: run.isBackfill });
    if (placed?.kind === 'foreign') {
      const mark = `foreign:${idOf(raw)}`;
      marks.push(mark);
      keys.push(mark);
      stored.foreign += 1;
      return;
    }
    const inject = withHash(placed?.inject ?? partition.inject, shown);
    const prepared = readRecord(shown, inject);
    for (const note of prepared.drift) page.drift.add(note);
    if (prepared.kind === 'refused') {
      marks.push(`refused:${anyJsonWithout(shown.records.value(shown.index), unstable)}`);
      stored.refused.push(isJsonObject(raw) ? prepared.refused : withPlace(prepared.refused, shown));
      return;
    }
    const { record } = prepared;
    marks.push(markOf(record, raw));
    keys.push(record.keyText);
    if (isPartial(entity, raw)) {
      rows.push(asPartial(entity, record, shown.records.value(shown.index)));
      facts.partial += 1;
      return;
    }
    rows.push(record);
    page.extraFields += prepared.extraFields;
    if (!isJsonObject(raw)) return;
    const listing = placed?.listing ?? null;
    if (listing !== null) stored.children.push(listing);
    if (placed?.isBelowLimit === true) facts.depthLimited += 1;
    stored.children.push(...findChildren(raw, { inject, keyText: record.keyText, settledMs }));
    addElements(page, raw, inject);
  };
}

/** Adds the place of the record to the message: a record that is no object may have nothing else to find it by. */
function withPlace(refused: Quarantined, { records, index }: ShownRecord): Quarantined {
  return { ...refused, detail: `${refused.detail}, in place ${index + 1} of ${records.length} of its page` };
}

/**
 * The key, and the value a sorted listing is sorted by: a record that moved is another place in it. Where changes move
 * it, times may be too coarse to show a second one: then all of its content counts.
 */
function compileMark(entity: Entity, shape: RecordShape) {
  const { order, incremental, volatile } = entity;
  const { columns } = shape.table;
  const textOf = compileContentText(shape);
  const contentOf = (record: PreparedRecord): string => {
    if (order?.field !== incremental?.field) return '';
    if (volatile.length === 0) return `@${record.hash}`;
    // Every answer has other bytes of the same record.
    return `@${shortHash(textOf({ ...(record.whole?.() ?? record), columns }))}`;
  };

  return (record: PreparedRecord, raw: JsonValue): string => {
    if (order === null || !isJsonObject(raw)) return record.keyText;
    const value = raw[order.field] ?? null;
    const place = typeof value === 'string' ? value : wholeJson(value);
    return `${record.keyText}@${place}${contentOf(record)}`;
  };
}

function idOf(raw: JsonValue): string {
  return isJsonObject(raw) ? wholeJson(raw['id'] ?? null) : '';
}

/**
 * Whether a page's records come in the order asked for, as far as it is by time. A value later than the run's start may
 * have changed at its old place. `dates`: of the records, by the field `datedBy`.
 */
function compileIsSorted(entity: Entity, capMs: number, datedBy: string | null) {
  // Page tokens, for one, prove a walk by themselves, and listings in the opposite order have them.
  if (entity.order === null || !styleOf(entity.pagination).restsOnOrder) return () => true;
  const valueOf = entity.order.field === datedBy ? null : compileChangeSpan({ field: entity.order.field });

  return (records: readonly JsonValue[], dates: readonly (ChangeSpan | null)[]): boolean => {
    let beforeMs = Number.NEGATIVE_INFINITY;
    for (const value of valueOf === null ? dates : records.map(valueOf)) {
      if (value === null || value.highestMs > capMs) continue;
      if (value.highestMs < beforeMs) return false;
      beforeMs = value.highestMs;
    }
    return true;
  };
}

/**
 * Prepares a record of a page: as its row says, where that was stored from the same bytes, else from its values. Throws
 * as `compilePrepare`.
 */
function compileReadRecord(run: PreparingRun, entity: Entity, shape: RecordShape) {
  const hashOf = compileHash(run.remembered, entity).ofValues;
  const prepare = compilePrepare(shape, hashOf);
  const prepareBytes = compilePrepareBytes(shape, hashOf);
  const compare = compileCompare(shape);
  const fileOf = compileFileOfRecord(shape.download ?? null);

  function read(shown: ShownRecord, inject: Partition['inject']): Prepared {
    const { records, index, row } = shown;
    // The bytes are unmasked.
    const page = entity.mask === null ? records.scanned(index) : null;
    const prepared = page === null ? null : prepareBytes(page, shown, inject);
    return prepared ?? prepare(records.value(index), inject, row);
  }

  return (shown: ShownRecord, inject: Partition['inject']): Prepared => {
    const { row, glance } = shown;
    if (row?.found?.isSame !== true) return read(shown, inject);
    const whole = (): PreparedRecord => {
      const prepared = read(shown, inject);
      if (prepared.kind === 'record') return prepared.record;
      throw new TypeError(`a record that was stored before is now refused: ${prepared.refused.reason}`);
    };
    const { keyText, values, hash } = row;
    const { found } = row.found;
    // Written out: this is most of what a record costs that has not changed.
    const record = { keyText, values, hash, extra: null, compare, whole, found };
    // Nothing about it is new.
    if (fileOf === null) return { kind: 'record', drift: [], extraFields: 0, record };
    return { kind: 'record', drift: [], extraFields: 0, record: { ...record, file: fileOf(glance, inject) } };
  };
}

/**
 * Turns each element of an array field into a separate row; null: the entity explodes nothing. Absent key parts become
 * '': equal events of one second are one. The function throws `SyncError` SCHEMA_CHANGED where the policy wants a
 * change to fail the entity.
 */
export function compileExplode(entity: Entity, policy?: SchemaPolicy) {
  const { explode } = entity;
  const shape = explodedShape(entity, policy);
  if (explode === null || shape === null) return null;
  const prepare = compilePrepare(shape);
  const emptyKey = Object.fromEntries(
    explode.key.filter((name) => !explode.carry.includes(name)).map((name) => [name, '']),
  );

  return (raw: JsonObject, inject: Partition['inject']): readonly Prepared[] => {
    const elements = raw[explode.field];
    if (!isJsonArray(elements)) return [];
    const carried = Object.fromEntries(
      explode.carry.map((name) => [name, inject[name] ?? raw[name] ?? null]),
    );
    return elements.map((element) =>
      prepare(isJsonObject(element) ? withDefaults(element, emptyKey) : element, carried),
    );
  };
}

function withDefaults(element: JsonObject, emptyKey: JsonObject): JsonObject {
  const filled = noFields();
  for (const [name, value] of Object.entries(emptyKey)) filled[name] = value;
  for (const [name, value] of Object.entries(element)) {
    if (value !== null || !(name in filled)) filled[name] = value;
  }
  return filled;
}

/** The stored rows of records. */
export interface RememberedRows {
  /** Secret: without it no other bytes can be made that are taken for these. */
  readonly key: string;
  /** As of `StoredKeys`. */
  find(entity: EntityName, records: readonly LookedRecord[]): Promise<readonly (FoundRow | null)[]>;
}

/**
 * Looks for the records of a page among those that are stored, by their bytes. Of entities whose records become several
 * rows, lie in a tree or have no key, every record is read.
 */
export function compileRecognize(run: FindingRun & { readonly remembered?: RememberedRows }, entity: Entity) {
  const { remembered } = run;
  const isReadWhole = entity.explode !== null || entity.recursive !== null || entity.isKeyless === true;
  const names = new Set(recognizedBy(run, entity));
  const keyOf = compileKeyOf(recordShape(entity));
  const hashOf = compileHash(remembered, entity).ofBytes;

  /** Null: all of the record is to be read. */
  const look = (
    records: PageRecords,
    index: number,
    glance: JsonValue,
    inject: Partition['inject'],
  ): LookedRow | null => {
    const page = records.scanned(index);
    if (page === null || !isJsonObject(glance)) return null;
    if (!isOfKind(entity, glance) || isPartial(entity, glance)) return null;
    const key = keyOf(glance, inject);
    if (key === null) return null;
    const hash = hashOf(inject, page.bytes, page.starts[index] ?? 0, page.ends[index] ?? 0);
    return { keyText: key.keyText, values: key.values, hash, found: null };
  };

  return async ({ inject }: Partition, records: PageRecords): Promise<readonly ShownRecord[]> => {
    const isLooking = remembered !== undefined && !isReadWhole;
    const shown: ShownRecord[] = [];
    const looked: LookedRow[] = [];
    for (let index = 0; index < records.length; index += 1) {
      const glance = isReadWhole ? records.value(index) : records.glance(index, names);
      const row = isLooking ? look(records, index, glance, inject) : null;
      if (row !== null) looked.push(row);
      shown.push({ records, index, glance, row });
    }
    if (remembered === undefined || looked.length === 0) return shown;
    const rows = await remembered.find(entity.name, looked);
    for (const [index, row] of looked.entries()) row.found = rows[index] ?? null;
    return shown;
  };
}

/** Everything that is asked of a record that is stored already, beside its own bytes. */
function recognizedBy(run: FindingRun, entity: Entity): readonly string[] {
  const { key, only, whole, order, incremental, windows, actions } = entity;
  const download = actions.get('download');
  const file = download?.file ?? null;
  return [
    'id',
    ...key,
    ...whole,
    ...only.flatMap(({ field }) => atPath(field)),
    ...(order === null ? [] : [order.field]),
    ...[incremental?.field ?? null, windows?.field ?? null].flatMap((path) =>
      path === null ? [] : atPath(path),
    ),
    ...fieldsOfDescents(run, entity).flatMap(atPath),
    ...(download === undefined || file === null
      ? []
      : [...download.key.values(), ...file.version, file.name, file.contentType, file.size].filter(
          (name) => name !== null,
        )),
  ];
}

/** A path may be one of members, or the name of one that has points in it. */
export function atPath(path: string): readonly string[] {
  return [path, path.split('.', 1)[0] ?? path];
}

/** Half of a SHA-256, in 22 characters. */
const hashChars = 22;

/**
 * Hashes records with everything else that decides how they are stored. The secret comes first: without it, the hash of
 * any bytes cannot be computed.
 */
function compileHash(
  remembered: RememberedRows | undefined,
  { table, ignored, volatile, filledFrom, whole, mask }: Entity,
) {
  const columns = table.columns.filter(({ isEvolved }) => isEvolved !== true);
  const reading = [readingVersion, { ...table, columns }, [...ignored], volatile, [...filledFrom], whole];
  const sinkKey = remembered?.key ?? '';
  // The bytes are unmasked: with the sink alone, a reader must not be able to try values.
  const key = mask === null ? sinkKey : mask.rawKey(sinkKey);
  const prefixOf = (inject: Partition['inject'] | null): Buffer =>
    hash('sha256', writeJson([key, writeJson(reading), inject]), 'buffer');
  const prefixes = new WeakMap<Partition['inject'], Buffer>();
  const prefixOfValues = prefixOf(null).toString('base64url');
  let room = Buffer.alloc(4_096);
  return {
    ofBytes: (inject: Partition['inject'], bytes: Buffer, start: number, end: number): string => {
      let prefix = prefixes.get(inject);
      if (prefix === undefined) prefixes.set(inject, (prefix = prefixOf(inject)));
      const length = prefix.byteLength + end - start;
      if (room.byteLength < length) room = Buffer.alloc(length * 2);
      room.set(prefix);
      bytes.copy(room, prefix.byteLength, start, end);
      return hash('sha256', room.subarray(0, length), 'base64url').slice(0, hashChars);
    },
    /** The values of a record whose bytes are not known. Empty: there is no key. */
    ofValues: (values: string): string =>
      remembered === undefined
        ? ''
        : hash('sha256', prefixOfValues + values, 'base64url').slice(0, hashChars),
  };
}

/** A larger difference is the age of records that have not changed for long, not that of two clocks. */
const longestMs = 24 * 60 * 60 * 1000;

/**
 * Walks of a partition whose differences are kept. Few: one that has become larger counts only when smaller ones are
 * forgotten.
 */
const keptWalks = 5;

/** `Date` is in whole seconds: the page may be that much later. */
const dateStepMs = 1000;

/**
 * When a page was answered, at the latest: by its `Date`, in milliseconds, and by this machine's clock where it has
 * none.
 */
export function answeredMs(serverTime: string | null, { capMs, nowMs }: { capMs: number; nowMs: number }) {
  return Math.max(capMs, serverTime === null ? nowMs : Date.parse(serverTime) + dateStepMs);
}

/**
 * Most that the records' clock may be behind the answers', in milliseconds: no record changes after the page that shows
 * it, so at most by the newest record's age. Later dates say nothing. Null: no record says anything.
 */
export function differenceMs(atMs: number, changes: readonly (ChangeSpan | null)[]): number | null {
  let smallest: number | null = null;
  for (const change of changes) {
    if (change === null) continue;
    const newestMs = change.highestMs <= atMs ? change.highestMs : change.lowestMs;
    if (newestMs <= atMs) smallest = smaller(smallest, Math.min(longestMs, atMs - newestMs));
  }
  return smallest;
}

export function smaller(left: number | null, right: number | null): number | null {
  if (left === null || right === null) return left ?? right;
  return Math.min(left, right);
}

/** The smallest that this walk and the partition's last ones have shown. */
export function smallestOf(recent: readonly number[], own: number | null): number | null {
  return recent.reduce<number | null>(smaller, own);
}

export function keptDifferences(recent: readonly number[], own: number | null): readonly number[] {
  return own === null ? recent : [...recent, own].slice(-keptWalks);
}
