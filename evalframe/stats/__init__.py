"""Statistics on numpy arrays: resampling, intervals, tests, calibration. No frames and no names of ours in here."""
