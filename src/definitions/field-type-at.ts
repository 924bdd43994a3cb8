import type { EntityFile } from './definition-file.ts';
import type { YamlPath } from './yaml-places.ts';

export interface FieldFound {
  /** Null where there is no such field. */
  readonly type: string | null;
  /** The places of the file that say so. */
  readonly declaration: readonly YamlPath[];
  /** What could have been meant. */
  readonly known: readonly string[];
}

/**
 * The type of a field, or of a field of an exploded array's elements (`activity.timestamp`). What lies inside an object is not
 * declared: it is taken to be a text.
 */
export function fieldTypeAt(entity: EntityFile, path: string, entityAt: YamlPath): FieldFound {
  const [first = '', ...rest] = path.split('.');
  const { explode } = entity;
  const fieldAt = [...entityAt, 'fields', first];
  if (explode !== null && first === explode.field && rest.length > 0) {
    const inner = rest.join('.');
    return {
      type: explode.fields[inner] ?? null,
      declaration: [[...entityAt, 'explode'], fieldAt],
      known: Object.keys(explode.fields).map((name) => `${first}.${name}`),
    };
  }
  const type = Object.hasOwn(entity.fields, first) ? (entity.fields[first] ?? null) : null;
  const isInside = rest.length > 0 && !rest.includes('') && (type === 'object' || type === 'any');
  return {
    type: isInside ? 'string' : rest.length > 0 && type !== null ? null : type,
    declaration: [fieldAt, [...entityAt, 'explode']],
    known: Object.keys(entity.fields),
  };
}
