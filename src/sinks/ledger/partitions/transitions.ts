import type { transitions as namedTransitions } from '../../file-ledger/partitions/transitions.ts';
import { deleting } from './deleting.ts';
import { keeping } from './keeping.ts';
import { walking } from './walking.ts';

/** A server has rows and ledger both or neither: no row is ever lost, so no walk is distrusted. */
type Named = Exclude<keyof typeof namedTransitions, 'distrust'>;

/** Every statement that writes `_sync_partitions`, by the names of docs/partitions.md, each for a set of them. */
export const transitions = { ...walking, ...deleting, ...keeping } satisfies Record<Named, unknown>;
