import type { Clock } from '../core/clock.ts';
import type { SinkSettings } from '../settings/settings.ts';
import type { ClosedFiles } from '../sinks/closed-files.ts';
import { accessSink, openSink } from '../sinks/registry.ts';
import type { OpenHow, SinkFinding } from '../sinks/sink-access.ts';

/** Opens a sink for writing, which makes it where there is none, and says where it is and how many connectors it holds. */
export async function checkWritable(
  sink: SinkSettings,
  how: Pick<OpenHow, 'clock' | 'signal'>,
): Promise<{ readonly place: string; readonly connectors: number }> {
  await using opened = await openSink(sink, how);
  const known = (await opened.history.overview()).filter(({ identity }) => identity !== null);
  return { place: accessSink(sink).place, connectors: known.length };
}

/** What the sink rests on besides files, each by itself; none of a sink in files. */
export async function sinkFindings(sink: SinkSettings, clock: Clock): Promise<readonly SinkFinding[]> {
  return await accessSink(sink).check({ clock, durability: sink.durability });
}

/** What is free where the sink stores; null where that is not known. */
export async function freeBytes(sink: SinkSettings): Promise<number | null> {
  return await accessSink(sink).freeBytes();
}

/** Null where the sink closes no files. The caller disposes it. */
export async function openClosedFiles(sink: SinkSettings): Promise<ClosedFiles | null> {
  return await accessSink(sink).openClosedFiles();
}
