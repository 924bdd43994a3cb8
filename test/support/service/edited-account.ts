import { text } from './served-api.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Params } from '../../../src/core/records.ts';
import { listingOf, type SampleAccount } from '../../../src/sample/sample-account.ts';

export type EditedAccount = ReturnType<typeof editAccount>;

interface Edits {
  readonly removed: Set<string>;
  readonly changed: Map<string, { edit: (record: JsonObject) => JsonObject; place: 'keep' | 'toEnd' }>;
  readonly added: { record: JsonObject; isIn: (params: Params) => boolean }[];
}

/**
 * A sample account that changes while it is served: give it to a service with `wrap`. Edits lie over the lists as the
 * account filtered and sorted them; edited entities are read whole, so keep to small accounts.
 */
export function editAccount(account: SampleAccount) {
  const editsByEntity = new Map<string, Edits>();
  let isHidden: (entity: string, params: Params) => boolean = () => false;
  const editsOf = (entity: string): Edits => {
    const edits = editsByEntity.get(entity) ?? { removed: new Set(), changed: new Map(), added: [] };
    editsByEntity.set(entity, edits);
    return edits;
  };

  const edited: SampleAccount = {
    list(entity, params) {
      const listing = account.list(entity, params);
      if (isHidden(entity, params)) return listingOf([], listing.metadata);
      const edits = editsByEntity.get(entity);
      if (edits === undefined) return listing;
      return listingOf(apply(edits, listing.slice(0, Number.POSITIVE_INFINITY), params), listing.metadata);
    },
    get(entity, params) {
      const edits = editsByEntity.get(entity);
      const added = edits?.added.find(({ record }) => Object.values(params).includes(record['id'] ?? null));
      const record = added?.record ?? account.get(entity, params);
      if (record === null || edits === undefined) return record;
      const id = text(record['id']);
      return edits.removed.has(id) ? null : (edits.changed.get(id)?.edit(record) ?? record);
    },
  };
  return {
    ...edited,
    /** Lists for which this is true are empty until another rule is given. */
    hide: (rule: typeof isHidden) => {
      isHidden = rule;
    },
    /** The record is no longer in a list, and `get` does not find it. Restored by `restore`. */
    remove: (entity: string, id: string) => void editsOf(entity).removed.add(id),
    restore: (entity: string, id: string) => void editsOf(entity).removed.delete(id),
    /** `toEnd`: the record also moves behind all others, as it does in an order by its last change. */
    change: (
      entity: string,
      id: string,
      edit: (record: JsonObject) => JsonObject,
      place: 'keep' | 'toEnd' = 'keep',
    ) => void editsOf(entity).changed.set(id, { edit, place }),
    /** At the end of the lists whose parameters pass. */
    add: (entity: string, record: JsonObject, isIn: (params: Params) => boolean = () => true) =>
      void editsOf(entity).added.push({ record, isIn }),
  };
}

function apply(edits: Edits, records: readonly JsonObject[], params: Params): readonly JsonObject[] {
  const kept: JsonObject[] = [];
  const moved: JsonObject[] = [];
  const added = edits.added.filter(({ isIn }) => isIn(params)).map(({ record }) => record);
  for (const record of [...records, ...added]) {
    const id = text(record['id']);
    if (edits.removed.has(id)) continue;
    const change = edits.changed.get(id);
    (change?.place === 'toEnd' ? moved : kept).push(change === undefined ? record : change.edit(record));
  }
  return [...kept, ...moved];
}
