import { isJsonObject, type JsonValue } from '../../core/json.ts';
import type { EntityName } from '../../core/names.ts';
import type { FieldDrift, PreparedRecord, Quarantined } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { FoundPartition, Partition } from '../../sinks/partition.ts';
import { differenceMs, smaller } from '../clock-difference.ts';
import { anyJsonWithout, wholeJson } from './canonical-json.ts';
import { styleOf } from '../../pagination/pagination-of.ts';
import type { ChangeSpan } from '../../pagination/pagination.ts';
import { compileChangeSpan } from './change-span.ts';
import { compileExplode } from './explode-record.ts';
import { compileFindChildren, markerField, type FindingRun } from './find-children.ts';
import { placeInTree } from './listing-tree.ts';
import { asPartial, isOfKind, isPartial } from './partial-record.ts';
import { compilePrepare } from './prepare-record.ts';
import { recordShape } from './record-shape.ts';
import { acceptEverything, type SchemaPolicies } from './schema-policy.ts';

export type PreparePage = ReturnType<typeof compilePreparePage>;
/** A page, ready to be stored: every fetched record is in `rows`, `refused`, `filtered` or `foreign`. */
export type PreparedPage = Readonly<ReturnType<PreparePage>>;

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

/**
 * The function throws `SyncError` SCHEMA_CHANGED where a policy wants a change to fail the entity. Tables without a
 * policy take what comes.
 */
export function compilePreparePage(run: FindingRun & { readonly policies: SchemaPolicies }, entity: Entity) {
  const policyOf = (table: EntityName) => run.policies.get(table) ?? acceptEverything;
  const prepare = compilePrepare(recordShape(entity, policyOf(entity.name)));
  const explode = compileExplode(entity, policyOf(entity.explode?.into ?? entity.name));
  const findChildren = compileFindChildren(run, entity);
  const changeSpan = entity.incremental === null ? null : compileChangeSpan(entity.incremental.field);
  const datedBy = entity.incremental?.field ?? markerField(run, entity.name);
  const dateSpan = changeSpan ?? (datedBy === null ? null : compileChangeSpan(datedBy));
  const isSorted = compileIsSorted(entity, run.capMs, datedBy);
  // What differs from answer to answer must not make another record of a refused one.
  const unstable = [...[...entity.ignored].map((name) => [name]), ...entity.volatile];

  return (
    partition: Partition,
    records: readonly JsonValue[],
    { alreadyRead, answeredMs, differenceMs: knownMs }: PageContext,
  ) => {
    const dates = dateSpan === null ? [] : records.map(dateSpan);
    const shownMs = differenceMs(answeredMs, dates);
    const settledMs = run.capMs - (smaller(knownMs, shownMs) ?? 0);
    const rows: PreparedRecord[] = [];
    const exploded: PreparedRecord[] = [];
    const refused: Quarantined[] = [];
    const children: FoundPartition[] = [];
    const marks: string[] = [];
    const keys: string[] = [];
    const drift = new Set<FieldDrift>();
    let [filtered, foreign, partial, extraFields, explodedExtra, explodedFetched, depthLimited] = [
      0, 0, 0, 0, 0, 0, 0,
    ];

    const see = (mark: string, isKey: boolean): void => {
      marks.push(mark);
      if (isKey) keys.push(mark);
    };

    records.forEach((raw, index) => {
      if (isJsonObject(raw) && !isOfKind(entity, raw)) {
        see(`filtered:${idOf(raw)}`, raw['id'] !== undefined);
        filtered += 1;
        return;
      }
      const placed =
        entity.recursive === null || !isJsonObject(raw)
          ? null
          : placeInTree(entity.recursive, partition, raw, {
              positionInListing: alreadyRead + index,
              isBackfill: run.isBackfill,
            });
      if (placed?.kind === 'foreign') {
        see(`foreign:${idOf(raw)}`, true);
        foreign += 1;
        return;
      }
      const inject = placed?.inject ?? partition.inject;
      const prepared = prepare(raw, inject);
      for (const note of prepared.drift) drift.add(note);
      if (prepared.kind === 'refused') {
        marks.push(`refused:${anyJsonWithout(raw, unstable)}`);
        refused.push(prepared.refused);
        return;
      }
      marks.push(markOf(entity, prepared.record, raw));
      keys.push(prepared.record.keyText);
      if (isPartial(entity, raw)) {
        rows.push(asPartial(entity, prepared.record, raw));
        partial += 1;
        return;
      }
      rows.push(prepared.record);
      extraFields += prepared.extraFields;
      if (!isJsonObject(raw)) return;
      if (placed !== null && placed.listing !== null) children.push(placed.listing);
      if (placed?.isBelowLimit === true) depthLimited += 1;
      children.push(...findChildren(raw, { inject, keyText: prepared.record.keyText, settledMs }));
      for (const element of explode?.(raw, inject) ?? []) {
        explodedFetched += 1;
        for (const note of element.drift) drift.add(note);
        if (element.kind === 'refused') refused.push(element.refused);
        else {
          exploded.push(element.record);
          explodedExtra += element.extraFields;
        }
      }
    });

    const explodedInto = entity.explode?.into;
    return {
      /** What is stored of the page. */
      stored: {
        filtered,
        foreign,
        refused,
        children,
        rows: [
          { entity: entity.name, records: rows },
          ...(explodedInto === undefined ? [] : [{ entity: explodedInto, records: exploded }]),
        ],
        drift: [...drift],
      },
      /** One per record of the response, in its order: what the pagination recognizes records by. */
      marks,
      /** Of the records that can be identified whatever else changes in them. */
      keys,
      /** One per record likewise: its change values. Empty where the entity is only read in full. */
      changes: changeSpan === null ? [] : dates,
      /**
       * How far the clock that dates the records is behind the service's at most, by this page. Null: it does not say.
       */
      differenceMs: shownMs,
      /** False: the records contradict the order that was asked for. */
      isSorted: isSorted(records, dates),
      /** Entity -> fields kept in `_extra`. */
      extraFields: new Map([
        [entity.name, extraFields],
        ...(explodedInto === undefined ? [] : [[explodedInto, explodedExtra] as const]),
      ]),
      /** Elements found in exploded arrays. */
      explodedFetched,
      depthLimited,
      /** Records of `rows` of which only a part came. */
      partial,
    };
  };
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
  const valueOf = entity.order.field === datedBy ? null : compileChangeSpan(entity.order.field);

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
