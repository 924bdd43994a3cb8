import type { JsonObject } from '../../src/core/json.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import type { TruthRecord } from './sample-truth.ts';

export type RevisionChangeKind = 'added' | 'changed' | 'deleted' | 'archived' | 'moved' | 'revived';

export function kindOfAppearance(wasThereBefore: boolean): 'added' | 'revived' {
  return wasThereBefore ? 'revived' : 'added';
}

const getParams: Readonly<Record<string, string>> = {
  pages: 'page_id',
  data_sources: 'data_source_id',
  blocks: 'block_id',
};

/** Of a record that is in no listing any more. */
export function kindOfLoss(after: SampleAccount, entity: string, { id }: JsonObject): 'archived' | 'deleted' {
  const param = getParams[entity];
  const left = param === undefined ? null : after.get(entity, { [param]: id ?? null });
  return left?.['in_trash'] === true ? 'archived' : 'deleted';
}

type Placed = Pick<TruthRecord, 'record'> & Partial<TruthRecord>;

/** Of a record that is there before and after, and not the same. */
export function kindOfChange(entity: string, old: Placed, now: Placed): 'archived' | 'changed' | 'moved' {
  const differs = (name: string): boolean =>
    JSON.stringify(old.record[name]) !== JSON.stringify(now.record[name]);
  switch (entity) {
    case 'list_members':
      return differs('status') && now.record['status'] === 'archived' ? 'archived' : 'changed';
    case 'pages':
      return differs('parent') ? 'moved' : 'changed';
    case 'documents':
      return differs('folder_id') ? 'moved' : 'changed';
    case 'blocks':
      if (differs('parent') || old.params?.['page_id'] !== now.params?.['page_id']) return 'moved';
      return isMovedAmongSiblings(old, now) ? 'moved' : 'changed';
    default:
      return 'changed';
  }
}

/** Edited without another content, it was moved; not edited at all, only its siblings were. */
function isMovedAmongSiblings(old: Placed, now: Placed): boolean {
  const content = ({ record }: Placed): string =>
    JSON.stringify({ ...record, last_edited_time: null, last_edited_by: null });
  return (
    old.params?.['position'] !== now.params?.['position'] &&
    old.record['last_edited_time'] !== now.record['last_edited_time'] &&
    content(old) === content(now)
  );
}
