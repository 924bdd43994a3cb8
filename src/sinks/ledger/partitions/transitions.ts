import { deleting } from './deleting.ts';
import { keeping } from './keeping.ts';
import { sealing } from './end-walk.ts';
import { walking } from './walking.ts';

/** Every statement that writes `_sync_partitions`, by its name in docs/internals/partitions.md. */
export const transitions = { ...walking, ...sealing, ...deleting, ...keeping } as const;
