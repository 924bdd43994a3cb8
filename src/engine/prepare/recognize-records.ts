import { hash } from 'node:crypto';
import { writeJson } from '../../core/json-text.ts';
import { isJsonObject, type JsonValue } from '../../core/json.ts';
import type { EntityName } from '../../core/names.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { Partition } from '../../sinks/partition.ts';
import type { RawRecord, SameRow } from '../../sinks/stored-keys.ts';
import type { PageRecords } from '../../source/page-records.ts';
import { fieldsOfDescents, type FindingRun } from './find-children.ts';
import { isOfKind, isPartial } from './partial-record.ts';
import { readingVersion } from './prepare-record.ts';
import { compileKeyOf } from './record-key.ts';
import { recordShape } from './record-shape.ts';

/** The rows that are known by the bytes that they were stored from. */
export interface RememberedRows {
  /** Secret: without it no other bytes can be made that are taken for these. */
  readonly key: string;
  /** As of `StoredKeys`. */
  same(entity: EntityName, records: readonly RawRecord[]): Promise<readonly (SameRow | 'other' | null)[]>;
}

/** A record of a page, as far as it is known without being read. */
export interface ShownRecord {
  readonly records: PageRecords;
  readonly index: number;
  /** The members of the record by which it is recognized, or all of it. */
  readonly glance: JsonValue;
  /** The hash of its bytes; null: it is not known by them. */
  readonly raw: string | null;
  /** Its row, which was stored from the same bytes; null: it must be read. */
  readonly same: (RawRecord & SameRow) | null;
}

/** While fewer rows than one in so many are recognized, looking for them costs more than it saves. */
const leastShare = 10;
/** Records after which that is judged. */
const enoughRecords = 2_000;
/** Then the records of one page in so many are looked for all the same: the service may send them as before again. */
const sampledPage = 32;

/**
 * Looks for the records of a page among those that are stored, by their bytes. Of entities whose records become several
 * rows, lie in a tree or have no key, every record is read.
 */
export function compileRecognize(run: FindingRun & { readonly remembered?: RememberedRows }, entity: Entity) {
  const { remembered } = run;
  const isReadWhole = entity.explode !== null || entity.recursive !== null || entity.isKeyless === true;
  const names = new Set(recognizedBy(run, entity));
  const keyOf = compileKeyOf(recordShape(entity));
  const hashOf = compileRawHash(remembered, entity);
  const share = watchShare();

  /** Null: all of the record is to be read. */
  const look = (
    records: PageRecords,
    index: number,
    glance: JsonValue,
    inject: Partition['inject'],
  ): RawRecord | null => {
    const page = records.scanned(index);
    if (page === null || !isJsonObject(glance)) return null;
    if (!isOfKind(entity, glance) || isPartial(entity, glance)) return null;
    const key = keyOf(glance, inject);
    if (key === null) return null;
    const raw = hashOf(inject, page.bytes, page.starts[index] ?? 0, page.ends[index] ?? 0);
    return { keyText: key.keyText, values: key.values, raw };
  };

  return async ({ inject }: Partition, records: PageRecords): Promise<readonly ShownRecord[]> => {
    const isLooking = remembered !== undefined && !isReadWhole && share.isWorthIt();
    const shown: (ShownRecord & { same: ShownRecord['same'] })[] = [];
    const looked: RawRecord[] = [];
    const placesOfLooked: number[] = [];
    for (let index = 0; index < records.length; index += 1) {
      const glance = isReadWhole ? records.value(index) : records.glance(index, names);
      const record = isLooking ? look(records, index, glance, inject) : null;
      if (record !== null) {
        looked.push(record);
        placesOfLooked.push(index);
      }
      shown.push({ records, index, glance, raw: record?.raw ?? null, same: null });
    }
    if (remembered === undefined || looked.length === 0) return shown;
    const rows = await remembered.same(entity.name, looked);
    share.note(rows);
    for (const [at, place] of placesOfLooked.entries()) {
      const row = rows[at] ?? null;
      const record = looked[at];
      const one = shown[place];
      if (row === null || row === 'other' || record === undefined || one === undefined) continue;
      const { keyText, values, raw } = record;
      const { hash: content, volatileHash, found } = row;
      one.same = { keyText, values, raw, hash: content, volatileHash, found };
    }
    return shown;
  };
}

/** Everything that is asked of a record that is stored already, beside its own bytes. */
function recognizedBy(run: FindingRun, entity: Entity): readonly string[] {
  const { key, only, whole, order, incremental, actions } = entity;
  const download = actions.get('download');
  const file = download?.file ?? null;
  return [
    'id',
    ...key,
    ...whole,
    ...(only === null ? [] : [only.field]),
    ...(order === null ? [] : [order.field]),
    ...(incremental === null ? [] : atPath(incremental.field)),
    ...fieldsOfDescents(run, entity).flatMap(atPath),
    ...(download === undefined || file === null
      ? []
      : [...download.key.values(), ...file.version, file.name, file.contentType, file.size].filter(
          (name) => name !== null,
        )),
  ];
}

/** A path may be one of members, or the name of one that has points in it. */
function atPath(path: string): readonly string[] {
  return [path, path.split('.', 1)[0] ?? path];
}

/**
 * The hash of a record's bytes, and of all else that decides what is stored of it. The secret comes first: who does not
 * have it cannot know what any bytes come to.
 */
function compileRawHash(
  remembered: RememberedRows | undefined,
  { table, ignored, volatile, filledFrom, moved, whole, mask }: Entity,
) {
  const reading = writeJson([
    readingVersion,
    table,
    [...ignored],
    volatile,
    [...filledFrom],
    [...moved],
    whole,
  ]);
  const sinkKey = remembered?.key ?? '';
  // The bytes are as they came: who has only the sink must not be able to try values.
  const key = mask === null ? sinkKey : mask.rawKey(sinkKey);
  const prefixes = new WeakMap<Partition['inject'], Buffer>();
  let room = Buffer.alloc(4_096);

  return (inject: Partition['inject'], bytes: Buffer, start: number, end: number): string => {
    let prefix = prefixes.get(inject);
    if (prefix === undefined) {
      prefix = hash('sha256', writeJson([key, reading, inject]), 'buffer');
      prefixes.set(inject, prefix);
    }
    const length = prefix.byteLength + end - start;
    if (room.byteLength < length) room = Buffer.alloc(length * 2);
    room.set(prefix);
    bytes.copy(room, prefix.byteLength, start, end);
    return hash('sha256', room.subarray(0, length), 'binary').slice(0, 16);
  };
}

/** Whether enough of the records that are looked for are found. */
function watchShare() {
  let looked = 0;
  let found = 0;
  let pages = 0;
  return {
    isWorthIt: (): boolean => {
      pages += 1;
      return looked < enoughRecords || found * leastShare >= looked || pages % sampledPage === 0;
    },
    note: (rows: readonly (SameRow | 'other' | null)[]): void => {
      for (const row of rows) {
        if (row === null) continue;
        looked += 1;
        if (row !== 'other') found += 1;
      }
      // What was long ago counts less: a service may begin or cease to send its records as before.
      if (looked < 4 * enoughRecords) return;
      looked /= 2;
      found /= 2;
    },
  };
}
