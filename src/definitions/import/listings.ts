import { saidToLeaveOut } from './left-out.ts';
import type { Operation } from './operation.ts';
import type { Parameter } from './parameter.ts';
import type { ServiceFile } from './service-file.ts';

/** One for each entity that has a listing: by `list`, or by `api_search` where the service has nothing else. */
export function listingsOf({ operations }: Pick<ServiceFile, 'operations'>): readonly Operation[] {
  const lists = new Map<string, Operation>();
  for (const action of ['list', 'api_search']) {
    for (const operation of operations) {
      if (operation.action === action && !lists.has(operation.entity)) lists.set(operation.entity, operation);
    }
  }
  return [...lists.values()].map((list) => withSearch(list, operations));
}

/** Entities that no import can read, because the file has no list of them. */
export function unlistedEntities({ operations }: Pick<ServiceFile, 'operations'>) {
  const listed = new Set(listingsOf({ operations }).map(({ entity }) => entity));
  const entities = new Set(operations.map(({ entity }) => entity).filter((entity) => !listed.has(entity)));
  return [...entities].map((entity) => {
    const actions = operations.filter((one) => one.entity === entity).map(({ action }) => action);
    return { entity, why: `the file has no list of it, only ${[...new Set(actions)].join(', ')}` };
  });
}

/** Lists of an entity behind the first one: a definition has one list of each. */
export function furtherListings({ operations }: Pick<ServiceFile, 'operations'>) {
  const paths = new Map(listingsOf({ operations }).map(({ entity, path }) => [entity, path]));
  return operations
    .filter(({ action, entity, path }) => action === 'list' && paths.get(entity) !== path)
    .map(({ entity, method, path }) => ({ entity, why: `not read: a further list, ${method} ${path}` }));
}

/** With what the search for the same records can be asked for and says to leave out otherwise. */
function withSearch(list: Operation, operations: readonly Operation[]): Operation {
  const search = operations.find(({ action, entity }) => action === 'api_search' && entity === list.entity);
  if (search === undefined || search === list || list.method !== 'GET') return list;
  const more = search.params.flatMap((param): readonly Parameter[] => {
    const isDeclared = list.params.some(({ name }) => name === param.name);
    const isPlain = param.place === 'query' && !param.isRequired && param.fallback === undefined;
    const isMeant = isPlain && !isDeclared && saidToLeaveOut(param.description) !== null;
    return isMeant ? [{ ...param, isOfSearch: true }] : [];
  });
  return { ...list, params: [...list.params, ...more] };
}
