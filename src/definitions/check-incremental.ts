import { checkSent } from './check-actions.ts';
import { checkTextParam } from './check-fields.ts';
import type { Note } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import { noSuch } from './suggest-name.ts';
import type { YamlPath } from './yaml-places.ts';

type IncrementalFile = NonNullable<EntityFile['incremental']>;
type SinceFile = Exclude<IncrementalFile, { kind: 'newestFirst' }>;

/** Reading only what changed: the change value, the parameters that ask for it, and what makes such a walk complete. */
export function checkIncremental(entity: EntityFile, entityAt: YamlPath, note: Note): void {
  const { incremental } = entity;
  if (incremental === null) return;
  const at = [...entityAt, 'incremental'];
  checkChangeField(entity, incremental, entityAt, note);
  if (entity.recursive !== null) {
    note(at, 'expected no tree: listings inside listings are read as one, whole or not at all', [
      ...entityAt,
      'recursive',
    ]);
  }
  switch (incremental.kind) {
    case 'keyset':
      checkSinceParam(entity, incremental, entityAt, note);
      checkKeyset(entity, incremental.field, entityAt, note);
      return;
    case 'since':
      checkSinceParam(entity, incremental, entityAt, note);
      if (entity.pagination.kind === 'offset' && entity.order === null && !entity.growsOnly) {
        note(
          at,
          'expected an order, or growsOnly: pages by offset prove nothing without one, and no watermark would ever move',
          [...entityAt, 'pagination'],
          [...entityAt, 'order'],
          [...entityAt, 'growsOnly'],
        );
      }
      return;
    case 'newestFirst':
      checkNewestFirst(entity, incremental.params, entityAt, note);
  }
}

function checkChangeField(
  entity: EntityFile,
  { field }: IncrementalFile,
  entityAt: YamlPath,
  note: Note,
): void {
  const at = [...entityAt, 'incremental', 'field'];
  const { type, declaration, known } = fieldTypeAt(entity, field, entityAt);
  if (type === null) {
    note(at, noSuch('field', field, known), ...declaration);
  } else if (type !== 'string') {
    note(
      at,
      `expected a field of type string that holds a time, ${field} is of type ${type}`,
      ...declaration,
    );
  }
}

function checkSinceParam(
  entity: EntityFile,
  { sinceParam }: SinceFile,
  entityAt: YamlPath,
  note: Note,
): void {
  const at = [...entityAt, 'incremental', 'sinceParam'];
  checkTextParam(entity, sinceParam, { at, entityAt }, note);
  for (const place of ['fixedParams', 'order'] as const) {
    const sent = place === 'order' ? entity.order?.params : entity.fixedParams;
    if (sent !== undefined && Object.hasOwn(sent, sinceParam)) {
      note(at, `${sinceParam} is also named in ${place}: it cannot have two values`, [...entityAt, place]);
    }
  }
}

function checkKeyset(entity: EntityFile, field: string, entityAt: YamlPath, note: Note): void {
  const at = [...entityAt, 'incremental'];
  if (entity.pagination.kind !== 'offset') {
    note([...at, 'kind'], `keyset expects pagination by offset, got ${entity.pagination.kind}`, [
      ...entityAt,
      'pagination',
    ]);
  }
  if (entity.order?.field !== field) {
    const got = entity.order === null ? 'there is no order' : `order sorts by ${entity.order.field}`;
    note(
      [...at, 'field'],
      `keyset expects the order to sort by ${field}, ascending; ${got}`,
      [...entityAt, 'order'],
      [...at, 'kind'],
    );
  }
}

function checkNewestFirst(
  entity: EntityFile,
  params: EntityFile['fixedParams'],
  entityAt: YamlPath,
  note: Note,
): void {
  const at = [...entityAt, 'incremental'];
  if (entity.pagination.kind !== 'pageToken') {
    note([...at, 'kind'], `newestFirst expects pagination by pageToken, got ${entity.pagination.kind}`, [
      ...entityAt,
      'pagination',
    ]);
  }
  if (Object.keys(params).length === 0) {
    note([...at, 'params'], 'expected the parameters that sort by the field, newest first');
  }
  checkSent(entity, params, entityAt, ['incremental', 'params'], note);
  for (const name of Object.keys(params)) {
    if (Object.hasOwn(entity.fixedParams, name)) {
      note([...at, 'params', name], 'is also a fixed parameter: name it in one place', [
        ...entityAt,
        'fixedParams',
      ]);
    }
  }
}

interface FieldFound {
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
function fieldTypeAt(entity: EntityFile, path: string, entityAt: YamlPath): FieldFound {
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
