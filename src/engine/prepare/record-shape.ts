import type { Action, Entity } from '../../definitions/definition.ts';
import { hashedColumns } from './canonical-json.ts';
import { slotOf } from './column-value.ts';
import { compileFileOfRecord } from './file-of-record.ts';
import { acceptEverything, driftNotes, type SchemaPolicy } from './schema-policy.ts';

/** `filledFrom` and `moved` absent: there are none. */
export interface RecordShape
  extends
    Pick<Entity, 'table' | 'ignored' | 'volatile'>,
    Partial<Pick<Entity, 'filledFrom' | 'moved' | 'isKeyless'>> {
  /** An array field whose elements become separate rows: it leaves this row. */
  readonly explodedField: string | null;
  /** How the file that belongs to a record is asked for; null or absent: the records have none. */
  readonly download?: Action | null;
  /** Absent: whatever comes is stored. */
  readonly policy?: SchemaPolicy;
}

/**
 * The shape of an entity's own records: with `explodedShape` the only place that says what of them is stored. Without a
 * policy whatever comes is stored.
 */
export function recordShape(entity: Entity, policy: SchemaPolicy = acceptEverything): RecordShape {
  const { explode, actions } = entity;
  const download = actions.get('download') ?? null;
  return { ...entity, explodedField: explode?.field ?? null, download, policy };
}

/** The shape of the elements of the entity's exploded field; null where it explodes nothing. */
export function explodedShape(
  { explodedTable }: Entity,
  policy: SchemaPolicy = acceptEverything,
): RecordShape | null {
  if (explodedTable === null) return null;
  return { table: explodedTable, ignored: new Set(), volatile: [], explodedField: null, policy };
}

export type CompiledShape = ReturnType<typeof compileShape>;

/** What is worked out once for all records of a shape. */
export function compileShape(shape: RecordShape) {
  const { table, volatile, policy = acceptEverything, filledFrom = new Map<string, string>() } = shape;
  const slots = new Map(
    table.columns.map((column, index) => [column.name, slotOf(table, volatile, column, index)]),
  );
  return {
    ...shape,
    policy,
    filledFrom,
    slots,
    keySlots: table.key.flatMap((name) => slots.get(name) ?? []),
    columns: hashedColumns(table.columns),
    fileOf: compileFileOfRecord(shape.download ?? null),
    noteOf: driftNotes(table.entity, policy),
  };
}
