import { usage } from '../core/usage-error.ts';
import { entityMaskings } from '../engine/prepare/mask-row.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { MaskEnd, MaskRequest } from '../sinks/masks.ts';
import { openSink } from '../sinks/registry.ts';
import type { OpenHow } from '../sinks/sink-access.ts';
import { folderOf } from './purge-records.ts';

/**
 * Brings under the masks of the config what the connector's sink holds from before them; `isLook` only tells what that
 * would be. Throws what `rewrite` of the sink's masking throws, and USAGE where the connector has no mask.
 */
export async function maskStored(
  connector: ConnectorSettings,
  {
    isLook = false,
    ...how
  }: Pick<OpenHow, 'clock' | 'who'> & Pick<MaskRequest, 'signal' | 'targets'> & { readonly isLook?: boolean },
): Promise<MaskEnd> {
  const { name, masks, definition, sink: settings } = connector;
  if (masks.size === 0) throw usage(`The config has no mask for ${name}, so nothing of it is unmasked.`);
  const { clock, signal, targets } = how;
  const folderFor = folderOf(connector, clock);
  await using sink = await openSink(settings, how);
  const asked: MaskRequest = {
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
  return isLook
    ? { ...(await sink.masking.look(name, asked)), left: [] }
    : await sink.masking.rewrite(name, asked);
}
