import * as z from 'zod';

/** Any text: what is no connector's id is simply not found. */
export const connectorPath = z.object({ id: z.string().describe("The connector's id.") });
