import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { EntityName } from '../../core/names.ts';
import type { FieldDrift, PreparedRecord, Quarantined } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { Partition } from '../../sinks/partition.ts';
import type { PageRecords } from '../../source/page-records.ts';
import { differenceMs, smaller } from '../clock-difference.ts';
import { anyJsonWithout, wholeJson } from './canonical-json.ts';
import { styleOf } from '../../pagination/pagination-of.ts';
import type { ChangeSpan } from '../../pagination/pagination.ts';
import { compileChangeSpan, countUndated } from './change-span.ts';
import { compileExplode } from './explode-record.ts';
import { compileFileOfRecord } from './file-of-record.ts';
import { compileFindChildren, markerField, type FindingRun, type FoundListing } from './find-children.ts';
import { placeInTree } from './listing-tree.ts';
import { asPartial, isOfKind, isPartial } from './partial-record.ts';
import { compilePrepare, type Prepared } from './prepare-record.ts';
import { compileHashKey, unstablePaths } from './record-key.ts';
import { compileRecognize, type RememberedRows, type ShownRecord } from './recognize-records.ts';
import { recordShape, type RecordShape } from './record-shape.ts';
import { acceptEverything, type SchemaPolicies } from './schema-policy.ts';

export type PreparePage = ReturnType<typeof compilePreparePage>;
/** A page, ready to be stored: every fetched record is in `rows`, `refused`, `filtered` or `foreign`. */
export type PreparedPage = Readonly<Awaited<ReturnType<PreparePage>>>;

interface PageContext {
  /** Records of this listing before the page. */
  readonly alreadyRead: number;
  /** When the page was answered, by the service's clock, in milliseconds. */
  readonly answeredMs: number;
  /**
   * How far the clock that dates the records is behind that one at most, by earlier pages and walks. Null: not known.
   */
  readonly differenceMs: number | null;
}

type PreparingRun = FindingRun & {
  readonly policies: SchemaPolicies;
  /** Absent: every record is read. */
  readonly remembered?: RememberedRows;
};

/**
 * The function throws `SyncError` SCHEMA_CHANGED where a policy wants a change to fail the entity. Tables without a
 * policy take what comes.
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
    const { filtered, foreign, refused, children, marks, keys, explodedFetched, depthLimited, partial } =
      page;
    return {
      /** What is stored of the page. */
      stored: {
        filtered,
        foreign,
        refused,
        children,
        rows: [
          { entity: entity.name, records: page.rows },
          ...(explodedInto === undefined ? [] : [{ entity: explodedInto, records: page.exploded }]),
        ],
        drift: [...page.drift],
      },
      /** One per record of the response, in its order: what the pagination recognizes records by. */
      marks,
      /** Of the records that can be identified whatever else changes in them. */
      keys,
      /** One per record likewise: its change values. Empty where nothing rests on them. */
      changes: endSpan === null ? [] : endSpan === changeSpan ? dates : glances.map(endSpan),
      /** Records whose change value is no time. */
      undated: entity.incremental === null ? 0 : countUndated(entity.incremental, glances, dates),
      /**
       * How far the clock that dates the records is behind the service's at most, by this page. Null: it does not say.
       */
      differenceMs: shownMs,
      /** False: the records contradict the order that was asked for. */
      isSorted: isSorted(glances, dates),
      /** Entity -> fields kept in `_extra`. */
      extraFields: new Map([
        [entity.name, page.extraFields],
        ...(explodedInto === undefined ? [] : [[explodedInto, page.explodedExtra] as const]),
      ]),
      /** Elements found in exploded arrays. */
      explodedFetched,
      depthLimited,
      /** Records of `rows` of which only a part came. */
      partial,
    };
  };
}

type Page = ReturnType<typeof emptyPage>;

/** What the records read so far come to. */
function emptyPage(partition: Partition, alreadyRead: number, settledMs: number) {
  return {
    partition,
    settledMs,
    /** Of the next record, in the listing. */
    position: alreadyRead,
    rows: [] as PreparedRecord[],
    exploded: [] as PreparedRecord[],
    refused: [] as Quarantined[],
    children: [] as FoundListing[],
    marks: [] as string[],
    keys: [] as string[],
    drift: new Set<FieldDrift>(),
    filtered: 0,
    foreign: 0,
    partial: 0,
    extraFields: 0,
    explodedExtra: 0,
    explodedFetched: 0,
    depthLimited: 0,
  };
}

/** What a record comes to in its page. All that is asked of it here is in its `glance`. */
function compileAddRecord(run: PreparingRun, entity: Entity): (page: Page, shown: ShownRecord) => void {
  const policyOf = (table: EntityName) => run.policies.get(table) ?? acceptEverything;
  const readRecord = compileReadRecord(recordShape(entity, policyOf(entity.name)));
  const explode = compileExplode(entity, policyOf(entity.explode?.into ?? entity.name));
  const findChildren = compileFindChildren(run, entity);
  const withHash = compileHashKey(entity);
  const unstable = unstablePaths(entity);

  function addElements(page: Page, raw: JsonObject, inject: Partition['inject']): void {
    for (const element of explode?.(raw, inject) ?? []) {
      page.explodedFetched += 1;
      for (const note of element.drift) page.drift.add(note);
      if (element.kind === 'refused') page.refused.push(element.refused);
      else {
        page.exploded.push(element.record);
        page.explodedExtra += element.extraFields;
      }
    }
  }

  return (page, shown) => {
    const raw = shown.glance;
    const { partition, marks, keys, rows, children, settledMs } = page;
    const positionInListing = page.position++;
    if (isJsonObject(raw) && !isOfKind(entity, raw)) {
      const mark = `filtered:${idOf(raw)}`;
      marks.push(mark);
      if (raw['id'] !== undefined) keys.push(mark);
      page.filtered += 1;
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
      page.foreign += 1;
      return;
    }
    const inject = withHash(placed?.inject ?? partition.inject, shown);
    const prepared = readRecord(shown, inject);
    for (const note of prepared.drift) page.drift.add(note);
    if (prepared.kind === 'refused') {
      marks.push(`refused:${anyJsonWithout(shown.records.value(shown.index), unstable)}`);
      page.refused.push(isJsonObject(raw) ? prepared.refused : withPlace(prepared.refused, shown));
      return;
    }
    const { record } = prepared;
    marks.push(markOf(entity, record, raw));
    keys.push(record.keyText);
    if (isPartial(entity, raw)) {
      rows.push(asPartial(entity, record, raw));
      page.partial += 1;
      return;
    }
    rows.push(record);
    page.extraFields += prepared.extraFields;
    if (!isJsonObject(raw)) return;
    if (placed !== null && placed.listing !== null) children.push({ ...placed.listing, records: null });
    if (placed?.isBelowLimit === true) page.depthLimited += 1;
    children.push(...findChildren(raw, { inject, keyText: record.keyText, settledMs }));
    addElements(page, raw, inject);
  };
}

/** What is no object may say nothing at all, so that its place is all there is to find it by. */
function withPlace(refused: Quarantined, { records, index }: ShownRecord): Quarantined {
  return { ...refused, detail: `${refused.detail}, in place ${index + 1} of ${records.length} of its page` };
}

/**
 * The key, and the value a sorted listing is sorted by: a record that moved is another place in it. Where changes move
 * it, times may be too coarse to show a second one: then all of its content counts.
 */
function markOf(entity: Entity, record: PreparedRecord, raw: JsonValue): string {
  if (entity.order === null || !isJsonObject(raw)) return record.keyText;
  const value = raw[entity.order.field] ?? null;
  const place = typeof value === 'string' ? value : wholeJson(value);
  const content = entity.order.field === entity.incremental?.field ? `@${record.hash}` : '';
  return `${record.keyText}@${place}${content}`;
}

function idOf(raw: JsonValue): string {
  return isJsonObject(raw) ? wholeJson(raw['id'] ?? null) : '';
}

/**
 * Whether a page's records come in the order asked for, as far as it is by time. A value later than the run's start may
 * have changed at its old place. `dates`: of the records, by the field `datedBy`.
 */
function compileIsSorted(
  entity: Entity,
  capMs: number,
  datedBy: string | null,
): (records: readonly JsonValue[], dates: readonly (ChangeSpan | null)[]) => boolean {
  // Page tokens, for one, prove a walk by themselves, and listings in the opposite order have them.
  if (entity.order === null || !styleOf(entity.pagination).restsOnOrder) return () => true;
  const valueOf = entity.order.field === datedBy ? null : compileChangeSpan({ field: entity.order.field });

  return (records, dates) => {
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
function compileReadRecord(shape: RecordShape) {
  const prepare = compilePrepare(shape);
  const fileOf = compileFileOfRecord(shape.download ?? null);

  function read({ records, index, raw }: ShownRecord, inject: Inject): Prepared {
    return withRaw(prepare(records.value(index), inject), raw);
  }

  return (shown: ShownRecord, inject: Inject): Prepared => {
    const { same, glance } = shown;
    if (same === null) return read(shown, inject);
    const whole = (): PreparedRecord => {
      const prepared = read(shown, inject);
      if (prepared.kind === 'record') return prepared.record;
      throw new TypeError(`a record that was stored before is now refused: ${prepared.refused.reason}`);
    };
    const { keyText, values, raw, hash, volatileHash, found } = same;
    // Written out: this is most of what a record costs that has not changed.
    const record = { keyText, values, raw, hash, volatileHash, extra: null, whole, found };
    // Nothing about it is new.
    if (fileOf === null) return { kind: 'record', drift: [], extraFields: 0, record };
    return { kind: 'record', drift: [], extraFields: 0, record: { ...record, file: fileOf(glance, inject) } };
  };
}

type Inject = Readonly<Record<string, JsonValue>>;

/**
 * Remembers the record by its bytes where its row holds all of it. Fields without a column and quarantined records must
 * be reported by each run, so they are read each time.
 */
function withRaw(prepared: Prepared, raw: string | null): Prepared {
  if (raw === null || prepared.kind === 'refused') return prepared;
  if (prepared.drift.length > 0 || prepared.extraFields > 0) return prepared;
  const { record, drift, extraFields } = prepared;
  const { keyText, hash, volatileHash, values, extra, file } = record;
  const known = { keyText, hash, volatileHash, values, extra, raw };
  return { kind: 'record', drift, extraFields, record: file === undefined ? known : { ...known, file } };
}
