import * as React from 'react';

/** The outlines of the icons, 24 by 24. */
export const SHAPES = {
  first: 'M5 5v14h2.5V5zm4.5 7 9.5 7V5z',
  previous: 'M7 12l11 7.5v-15z',
  next: 'M17 12 6 4.5v15z',
  last: 'M19 5v14h-2.5V5zm-4.5 7L5 5v14z',
  nextHit: 'M4 5l7 7-7 7zm8 0l7 7-7 7z',
  previousHit: 'M20 5l-7 7 7 7zm-8 0l-7 7 7 7z',
  edit: 'M4 16.5V20h3.5L17.8 9.7l-3.5-3.5zM20.6 6.9c.4-.4.4-1 0-1.4l-2.1-2.1c-.4-.4-1-.4-1.4 0l-1.6 1.6 3.5 3.5z',
  pin: 'M16 9V4h1V2H7v2h1v5l-2 3v2h5.2v7h1.6v-7H18v-2z',
  forget: 'M18.3 5.7 12 12l6.3 6.3-1.4 1.4L10.6 13.4 4.3 19.7 2.9 18.3 9.2 12 2.9 5.7 4.3 4.3l6.3 6.3 6.3-6.3z',
  pause: 'M6 4h4v16H6zm8 0h4v16h-4z',
  record: 'M12 5a7 7 0 1 0 0 14 7 7 0 0 0 0-14z',
  resume: 'M4 4h3v16H4zm5 0 12 8-12 8z',
  stop: 'M5 5h14v14H5z',
  check: 'M9 16.2 4.8 12l-1.4 1.4L9 19 21 7l-1.4-1.4z',
  rerun: 'M17.6 6.4A8 8 0 1 0 19.7 14h-2.1a6 6 0 1 1-1.4-6.2L13 11h7V4z'
};

/** An icon in the colour of the surrounding text. */
export function Icon({ name }: { name: keyof typeof SHAPES }): JSX.Element {
  return (
    <svg className="rfnb-Icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={SHAPES[name]} fill="currentColor" />
    </svg>
  );
}
