import type { FieldType } from '../core/records.ts';
import { sourceSql } from './field-value.ts';
import type { FieldSource, SearchField } from './search-target.ts';

/** A field whose values SQLite itself compares, and as we do: texts, numbers or booleans in columns of that type. */
export interface NativeColumn {
  /** Null, or (see `isAbsentWhenEmpty`) an empty text, where the record has no value. */
  readonly sql: string;
  readonly kind: 'string' | 'number' | 'boolean';
  readonly isAbsentWhenEmpty: boolean;
}

/** Null where values have to be read one by one. */
export function nativeColumn({ type, shape, sources }: SearchField): NativeColumn | null {
  const [first, ...more] = sources;
  if (first === undefined || shape !== 'asIs') return null;
  const kind = kindOfSource(first);
  if (kind === null || !sources.every((source) => kindOfSource(source) === kind && canBe(type, source))) {
    return null;
  }
  if (more.length === 0) return { sql: sourceSql(first), kind, isAbsentWhenEmpty: isAbsentWhenEmpty(first) };
  const values = sources.map((source) =>
    isAbsentWhenEmpty(source) ? `nullif(${sourceSql(source)}, '')` : sourceSql(source),
  );
  return { sql: `coalesce(${values.join(', ')})`, kind, isAbsentWhenEmpty: false };
}

function kindOfSource(source: FieldSource): NativeColumn['kind'] | null {
  if (source.kind === 'extra') return null;
  switch (source.type) {
    case 'string':
    case 'boolean':
      return source.type;
    case 'integer':
    case 'number':
      return 'number';
    case 'object':
    case 'array':
    case 'any':
      return null;
  }
}

/** Whether every value of the source is one of the field's type, so that none has to be left out. */
function canBe(type: FieldType, source: FieldSource): boolean {
  if (source.kind === 'extra') return false;
  const isAny = type === 'object' || type === 'array' || type === 'any';
  return isAny || type === source.type || (type === 'number' && source.type === 'integer');
}

function isAbsentWhenEmpty(source: FieldSource): boolean {
  return source.kind === 'column' && source.isAbsentWhenEmpty === true;
}
