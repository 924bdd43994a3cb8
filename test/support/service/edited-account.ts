import { text } from './served-api.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Params } from '../../../src/core/records.ts';
import { listingOf, type SampleAccount } from '../../../src/sample/sample-account.ts';

/**
 * A sample account that changes while it is served: give it to a service with `wrap`. Edits lie over the lists as the
 * account filtered and sorted them; edited entities are read whole, so keep to small accounts.
 */
export interface EditedAccount extends SampleAccount {
  /** The record is no longer in a list, and `get` does not find it. Restored by `restore`. */
  remove(entity: string, id: string): void;
  restore(entity: string, id: string): void;
  /** `toEnd`: the record also moves behind all others, as it does in an order by its last change. */
  change(
    entity: string,
    id: string,
    edit: (record: JsonObject) => JsonObject,
    place?: 'keep' | 'toEnd',
  ): void;
  /** Lists for which this is true are empty until another rule is given. */
  hide(isHidden: (entity: string, params: Params) => boolean): void;
  /** At the end of the lists whose parameters pass. */
  add(entity: string, record: JsonObject, isIn?: (params: Params) => boolean): void;
}

interface Edits {
  readonly removed: Set<string>;
  readonly changed: Map<string, { edit: (record: JsonObject) => JsonObject; place: 'keep' | 'toEnd' }>;
  readonly added: { record: JsonObject; isIn: (params: Params) => boolean }[];
}

export function editAccount(account: SampleAccount): EditedAccount {
  const editsByEntity = new Map<string, Edits>();
  let isHidden: (entity: string, params: Params) => boolean = () => false;
  const editsOf = (entity: string): Edits => {
    const edits = editsByEntity.get(entity) ?? { removed: new Set(), changed: new Map(), added: [] };
    editsByEntity.set(entity, edits);
    return edits;
  };

  return {
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
    hide: (rule) => {
      isHidden = rule;
    },
    remove: (entity, id) => void editsOf(entity).removed.add(id),
    restore: (entity, id) => void editsOf(entity).removed.delete(id),
    change: (entity, id, edit, place = 'keep') => void editsOf(entity).changed.set(id, { edit, place }),
    add: (entity, record, isIn = () => true) => void editsOf(entity).added.push({ record, isIn }),
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
