import * as z from 'zod';
import type { Workspace } from '../state/service-state.ts';
import { time } from './answer-shapes.ts';

export const workspace = z
  .object({
    id: z.guid(),
    name: z.string(),
    organization_id: z.guid(),
    status: z.enum(['active', 'inactive']),
    cache_enabled: z.boolean().nullable(),
    tombstone: z.boolean().describe('Always false: what is deleted is gone.'),
    visibility: z.enum(['shared', 'private']),
    color: z.string().nullable(),
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'Workspace' });

export function toWorkspace(found: Workspace): z.input<typeof workspace> {
  return {
    id: found.id,
    name: found.name,
    organization_id: found.organizationId,
    status: found.status,
    cache_enabled: found.isCacheEnabled,
    tombstone: false,
    visibility: 'shared',
    color: null,
    created_at: found.createdAt,
    updated_at: found.updatedAt,
  };
}
