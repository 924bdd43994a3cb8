import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';

/** A line of a definition file that begins with `# TODO`: the entity is not synced before a person has removed it. */
export interface Todo {
  /** Null: the line is outside of all entities, and applies to each of them. */
  readonly entity: string | null;
  readonly line: number;
  readonly text: string;
}

/** Throws DEFINITION_INVALID where an entity, or a parent of one, still has a guess in its definition. */
export function refuseTodos(
  connector: string,
  definition: { readonly name: string; readonly todos: readonly Todo[] },
  entities: ReadonlyMap<EntityName, { readonly parents: readonly EntityName[] }>,
): void {
  const read = new Set<string>([...entities].flatMap(([entity, { parents }]) => [entity, ...parents]));
  const todo = definition.todos.find(({ entity }) => entity === null || read.has(entity));
  if (todo === undefined) return;
  const { entity, line, text } = todo;
  const without = entity === null ? '' : `, or leave ${entity} out (exclude in the config)`;
  throw new SyncError(
    `${connector} cannot sync ${entity ?? 'any entity'}: line ${line} of the definition ${definition.name} is a TODO: ${text}. Write it below that line and remove the line${without}.`,
    { code: 'DEFINITION_INVALID', recovery: 'stop', context: { line } },
  );
}
