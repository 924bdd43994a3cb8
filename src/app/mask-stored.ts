import { usage } from '../core/usage-error.ts';
import { entityMaskings } from '../engine/prepare/mask-row.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { MaskEnd, MaskRequest, RewrittenOf } from '../sinks/masks.ts';
import { openSink } from '../sinks/registry.ts';
import type { OpenHow } from '../sinks/sink-access.ts';
import { folderOf } from './purge-records.ts';

type How = Pick<OpenHow, 'clock' | 'who'> & Pick<MaskRequest, 'signal' | 'targets'>;

/** What `maskStored` would rewrite; changes nothing. Throws USAGE as it does. */
export async function lookAtUnmasked(
  connector: ConnectorSettings,
  how: How,
): Promise<readonly RewrittenOf[]> {
  const asked = requestOf(connector, how);
  await using sink = await openSink(connector.sink, how);
  return await sink.masking.look(connector.name, asked);
}

/**
 * Brings under the masks of the config what the connector's sink holds from before them. Throws what
 * `rewrite` of the sink's masking throws, and USAGE where the connector has no mask.
 */
export async function maskStored(connector: ConnectorSettings, how: How): Promise<MaskEnd> {
  const asked = requestOf(connector, how);
  await using sink = await openSink(connector.sink, how);
  return await sink.masking.rewrite(connector.name, asked);
}

function requestOf(connector: ConnectorSettings, { clock, signal, targets }: How): MaskRequest {
  const { name, masks, definition } = connector;
  if (masks.size === 0) throw usage(`The config has no mask for ${name}, so nothing of it is unmasked.`);
  const folderFor = folderOf(connector, clock);
  return {
    masks: [...masks].map(([entity, { mask }]) => ({ entity, mask: mask.fingerprint, keyId: mask.keyId })),
    maskings: [...masks].flatMap(([entity, { mask }]) => {
      const masked = definition.entities.get(entity);
      return masked === undefined ? [] : entityMaskings(masked, mask);
    }),
    renameFile: async (entity, from, to) => {
      const folder = folderFor(entity);
      await (to === null ? folder.remove(entity, from, null) : folder.rename(entity, from, to));
    },
    targets,
    signal,
  };
}
