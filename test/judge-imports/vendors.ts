import type { Vendor } from './vendor.ts';
import { addresses } from './vendors/addresses.ts';
import { business } from './vendors/business.ts';
import { marketing } from './vendors/marketing.ts';
import { support } from './vendors/support.ts';
import { work } from './vendors/work.ts';

/** By the name of the public file. */
export const vendors: Readonly<Record<string, Vendor>> = {
  ...addresses,
  ...business,
  ...marketing,
  ...support,
  ...work,
};
