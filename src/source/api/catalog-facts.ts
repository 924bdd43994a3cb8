import type { CallFacts } from './call-failure.ts';

/** Facts of a call about the account rather than about records. `label`: for messages, as `find connectors`. */
export function catalogFacts(label: string, isWrite = false): CallFacts {
  return {
    purpose: 'catalog',
    label,
    entity: null,
    isRoot: false,
    canShrink: false,
    hasPageToken: false,
    patterns: [],
    isWrite,
  };
}
