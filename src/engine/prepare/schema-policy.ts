import { SyncError } from '../../core/errors.ts';
import type { EntityName } from '../../core/names.ts';
import type { FieldDrift } from '../../core/records.ts';
import type { KnownDrift } from '../../sinks/drift.ts';
import type { ChosenEntity } from '../chosen-entities.ts';

/** What becomes of a record with a field, or a type of a field, that is new. */
export interface SchemaPolicy {
  readonly onNews: 'accept' | 'quarantine' | 'fail';
  readonly isKnown: (drift: FieldDrift) => boolean;
}

/** Table (also one of exploded elements) -> what is done with changes of its records. */
export type SchemaPolicies = ReadonlyMap<EntityName, SchemaPolicy>;

/** Stands in for a table's names that are not told apart any more, and for all of them once it is known itself. */
export const otherFields = '*';

export const acceptEverything: SchemaPolicy = { onNews: 'accept', isKnown: () => true };

/** The same for a single record, which can be left out: nothing fails because of it. */
export function refusing({ onNews, isKnown }: SchemaPolicy): SchemaPolicy {
  return { onNews: onNews === 'accept' ? 'accept' : 'quarantine', isKnown };
}

/** Nothing is news as long as the entity has not been read whole: what its records look like is only being found out. */
export function schemaPolicyOf(
  { onSchemaChange }: Pick<ChosenEntity, 'onSchemaChange'>,
  known: KnownDrift,
): SchemaPolicy {
  if (onSchemaChange === 'keepExtra' || onSchemaChange === 'evolve' || !known.isEstablished) {
    return acceptEverything;
  }
  const evolved = new Set(known.evolved.map(({ name }) => name));
  return {
    onNews: onSchemaChange,
    isKnown: ({ field, kind, type }) =>
      kind === 'misfit'
        ? [field, otherFields].some((name) => known.misfits.get(name)?.has(type) === true)
        : known.fields.has(field) || evolved.has(field) || known.fields.has(otherFields),
  };
}

/** Says of a change what it is, for a person: no value, and a name that moves no cursor. */
export function describeNews({ field, kind, type }: FieldDrift): string {
  const name = JSON.stringify(field);
  const article = /^[aio]/.test(type) ? 'an' : 'a';
  const value = type === 'null' ? 'null' : `${article} ${type}`;
  return kind === 'undeclared'
    ? `the new field ${name} (${value}), which the definition does not declare`
    : `${value} in ${name}, which its column cannot hold`;
}

/** Nothing of the page is stored; other entities go on. */
export function schemaChanged(news: FieldDrift): SyncError {
  return new SyncError(
    `records of ${news.entity} came with ${describeNews(news)}; declare it in the definition, or let it in with ` +
      'onSchemaChange: keepExtra, and sync again',
    {
      code: 'SCHEMA_CHANGED',
      recovery: 'skip-entity',
      context: { entity: news.entity, field: news.field, type: news.type },
    },
  );
}
